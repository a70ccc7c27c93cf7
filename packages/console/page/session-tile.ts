/** The tile of a session: its commands and their output, and a command line while it is taken over. */
import type { AnySession, Hold, SandboxEvent } from 'nacre'
import type { SandboxClient } from 'nacre/client'
import { SessionTrack } from '../dist/recording/session-track.js'
import { askText, attempt } from './ask.ts'
import type { Connections } from './connections.ts'
import { age, button, el } from './dom.ts'
import { type Command, SIZE, waitsFor } from './model.ts'
import { LOOK_MS, PERSON, type Status, Tile } from './tile.ts'

/** The hold, and a command. */
const HOLD_COST = 2

export class SessionTile extends Tile<AnySession> {
  readonly #client: SandboxClient
  readonly #sessionId: string
  readonly #track: SessionTrack<{ output(time: Date, text: string): void; marker(): void; lose(): void }>
  readonly #killButton: HTMLButtonElement
  readonly #line = el('input', {
    type: 'text',
    'aria-label': 'Command',
    placeholder: 'Command',
    autocomplete: 'off',
  })
  readonly #form: HTMLFormElement
  #running: Command | undefined
  #look: ReturnType<typeof setInterval> | undefined
  /** Known only while a command runs. */
  #heldBy: string | null = null

  constructor(client: SandboxClient, sessionId: string, connections: Connections) {
    super({
      ...{ name: sessionId, kind: 'session', place: sessionId, connections, holdCost: HOLD_COST },
      screen: { size: SIZE, shows: 'lines' },
    })
    this.#client = client
    this.#sessionId = sessionId
    this.#track = new SessionTrack({
      output: (_, text) => void this.screen.write(text),
      marker() {},
      lose() {},
    })
    this.#killButton = this.addButton('Kill', () => attempt(() => this.#kill()), { class: 'danger' })
    this.#form = el(
      'form',
      {
        hidden: true,
        onsubmit: (event: Event) => {
          event.preventDefault()
          this.#run()
        },
      },
      this.#line,
      button('Run', () => this.#form.requestSubmit()),
    )
    this.screen.element.after(this.#form)
    this.update([], true)
  }

  receive(event: SandboxEvent): void {
    if (event.type === 'commandStarted') this.#track.start(event)
    if (event.type === 'commandOutput') this.#track.output(event)
    if (event.type === 'commandDetached') this.#track.detach(event)
    if (event.type === 'commandEnded') this.#track.end(event)
  }

  update(commands: Command[], isLive: boolean): void {
    this.#running = commands.findLast(({ state }) => state === 'running')
    const queued = commands.filter(({ state }) => state === 'queued').length
    const last = this.#running ?? commands.at(-1)
    const [status, state] = this.#stateOf(last, isLive)
    this.show(status, queued === 0 || !isLive ? state : `${state}, ${queued} queued`, last?.text ?? '')
    const waiting = this.#running?.waiting ?? null
    this.showNeeds(waiting === null || !isLive ? '' : waitsFor(waiting), this.#heldBy, isLive)
    this.#killButton.disabled = this.#running === undefined || !isLive
  }

  #stateOf(last: Command | undefined, isLive: boolean): [Status, string] {
    if (this.#running !== undefined)
      return isLive ? ['running', `running ${age(this.#running.startTime)}`] : ['unknown', 'unknown']
    if (last === undefined) return ['idle', 'no command yet']
    return [last.failed ? 'failed' : 'idle', last.end]
  }

  setVisible(isVisible: boolean): void {
    if (this.isVisible === isVisible) return
    this.isVisible = isVisible
    clearInterval(this.#look)
    if (!isVisible) return
    this.screen.show()
    this.#look = setInterval(() => void this.#lookAt(), LOOK_MS)
    void this.#lookAt()
  }

  override dispose(): void {
    clearInterval(this.#look)
    super.dispose()
  }

  async #lookAt(): Promise<void> {
    try {
      const session = await this.#session()
      this.usage = await session?.stats()
      this.#heldBy = (await session?.running())?.[0]?.heldBy ?? null
    } catch {
      // It has ended, or the connection is lost: the page says so elsewhere.
    }
  }

  async #session(): Promise<AnySession | null> {
    return this.#client.getSession(this.#sessionId)
  }

  protected override async makeHold(): Promise<Hold<AnySession> | undefined> {
    return (await this.#session())?.hold(PERSON)
  }

  protected override onHold(hold: Hold<AnySession> | undefined): void {
    this.#form.hidden = hold === undefined
    if (hold !== undefined) this.#line.focus()
  }

  #run(): void {
    const command = this.#line.value
    if (command.trim() === '' || this.hold === undefined) return
    const { held } = this.hold
    this.#line.value = ''
    void attempt(() => held.exec(command))
  }

  async #kill(): Promise<void> {
    const running = this.#running
    if (running === undefined) return
    const reason = await askText(`Kill ${running.text}?`, 'Reason', 'Kill', 'danger')
    if (reason === undefined) return
    await (await this.#session())?.killCommand(running.id, undefined, reason === '' ? {} : { reason })
  }
}
