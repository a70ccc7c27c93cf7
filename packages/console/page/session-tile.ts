/** The tile of a session: its commands and their output, and a command line while it is taken over. */
import type { Hold, SandboxEvent, Session } from 'nacre'
import type { SandboxClient } from 'nacre/client'
import { SessionTrack } from '../dist/recording/session-track.js'
import { askText, attempt } from './ask.ts'
import { button, el } from './dom.ts'
import { type Command, SIZE, waitsFor } from './model.ts'
import { LOOK_MS, PERSON, Tile } from './tile.ts'

export class SessionTile extends Tile<Session> {
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

  constructor(client: SandboxClient, sessionId: string) {
    super({ title: `session ${sessionId}`, place: sessionId, size: SIZE })
    this.#client = client
    this.#sessionId = sessionId
    this.#track = new SessionTrack({
      output: (_, text) => void this.screen.write(text),
      marker() {},
      lose() {},
    })
    this.#killButton = this.addButton('Kill', () => attempt(() => this.#kill()))
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
    this.update([])
  }

  receive(event: SandboxEvent): void {
    if (event.type === 'commandStarted') this.#track.start(event)
    if (event.type === 'commandOutput') this.#track.output(event)
    if (event.type === 'commandDetached') this.#track.detach(event)
    if (event.type === 'commandEnded') this.#track.end(event)
  }

  update(commands: Command[]): void {
    this.#running = commands.findLast(({ state }) => state === 'running')
    const queued = commands.filter(({ state }) => state === 'queued').length
    const last = commands.at(-1)
    const state = this.#running === undefined ? (last?.end ?? 'no command yet') : 'running'
    this.state = queued === 0 ? state : `${state}, ${queued} wait`
    const waiting = this.#running?.waiting ?? null
    this.badge = waiting === null ? '' : waitsFor(waiting)
    this.#killButton.disabled = this.#running === undefined
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
      this.usage = await (await this.#session())?.stats()
    } catch {
      // It has ended, or the connection is lost: the page says so elsewhere.
    }
  }

  async #session(): Promise<Session | null> {
    return this.#client.getSession(this.#sessionId)
  }

  protected override async makeHold(): Promise<Hold<Session> | undefined> {
    return (await this.#session())?.hold(PERSON)
  }

  protected override onHold(hold: Hold<Session> | undefined): void {
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
    const reason = await askText(`Kill ${running.text}?`, 'Reason', 'Kill')
    if (reason === undefined) return
    await (await this.#session())?.killCommand(running.id, undefined, reason === '' ? {} : { reason })
  }
}
