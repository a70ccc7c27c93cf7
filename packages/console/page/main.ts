/** The page: what runs in a sandbox, live. */
import type { SandboxEvent } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { askToken, attempt } from './ask.ts'
import { counted, el, setText, size } from './dom.ts'
import { History } from './history.ts'
import { Model } from './model.ts'
import { ProgramTile } from './program-tile.ts'
import { QuestionsPanel } from './questions.ts'
import { RecordingsPanel } from './recordings.ts'
import { SessionTile } from './session-tile.ts'
import { WorkspacePanel } from './workspace.ts'

const TOKEN_KEY = 'nacre.token'
const STATS_MS = 2000
/** Not by frames: a page in the background has none, and its title still counts who waits. */
const DRAW_MS = 100
const UNAUTHORIZED = 401

/** The address of the server. The page may be below a path of a proxy. */
const URL_OF_SERVER = `${location.origin}${location.pathname.replace(/\/console\/?$/, '')}`

class Page {
  readonly #client: SandboxClient
  readonly #model = new Model()
  readonly #history = new History(this.#model)
  readonly #workspace: WorkspacePanel
  readonly #recordings: RecordingsPanel
  readonly #questions: QuestionsPanel
  readonly #sessions = new Map<string, SessionTile>()
  readonly #programs = new Map<string, ProgramTile>()
  readonly #grid = el('section', { id: 'tiles', 'aria-label': 'Sessions and processes' })
  readonly #state = el('span', { id: 'state', role: 'status' }, 'connecting')
  readonly #stats = el('span', { id: 'stats' })
  readonly #search = el('input', { type: 'search', placeholder: 'Search', 'aria-label': 'Search' })
  #isDrawn = true
  /** Nothing follows any more. */
  #isOver = false
  readonly #seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) this.#tileOf(target)?.setVisible(isIntersecting)
  })

  constructor({ client, headers }: Server) {
    this.#client = client
    this.#workspace = new WorkspacePanel(client)
    this.#questions = new QuestionsPanel(client, this.#model.questions)
    this.#recordings = new RecordingsPanel((path) => fetch(URL_OF_SERVER + path, { headers }))
    this.#search.addEventListener('input', () => this.#draw())
    document.body.append(
      el('header', { id: 'top' }, el('h1', {}, 'nacre'), this.#state, this.#stats, this.#search),
      el('main', {}, this.#questions.element, this.#grid, this.#history.element),
    )
  }

  async run(): Promise<void> {
    await this.#model.load(this.#client)
    this.#draw()
    this.#show('connected')
    void attempt(async () => {
      if (!(await this.#workspace.isEnabled())) return
      this.#grid.after(this.#workspace.element)
      await this.#workspace.refresh()
    })
    void attempt(() => this.#recordings.addAfter(this.#history.element))
    setInterval(() => void this.#measure(), STATS_MS)
    void this.#measure()
    for await (const event of this.#client.events({ since: 0 })) this.#receive(event)
    this.#show('the sandbox has ended')
    this.#isOver = true
  }

  fail(error: unknown): void {
    this.#show(`connection lost: ${error instanceof Error ? error.message : error}. Load the page again.`)
    this.#isOver = true
  }

  #receive(event: SandboxEvent): void {
    this.#model.receive(event)
    if (event.type === 'lost') void attempt(() => this.#model.load(this.#client).then(() => this.#draw()))
    else if (event.type.startsWith('command')) this.#sessionTile(event.sessionId).receive(event)
    if (event.type === 'processStarted') this.#removeProgram(event.id)
    // Many events may come at once.
    if (!this.#isDrawn) return
    this.#isDrawn = false
    setTimeout(() => this.#draw(), DRAW_MS)
  }

  /** Brings all tiles in line with the model. */
  #draw(): void {
    this.#isDrawn = true
    const words = this.#search.value.trim()
    for (const id of this.#sessions.keys()) if (!this.#model.sessions.has(id)) this.#removeSession(id)
    for (const id of this.#programs.keys()) if (!this.#model.programs.has(id)) this.#removeProgram(id)
    for (const [id, commands] of this.#model.sessions) {
      const tile = this.#sessionTile(id)
      tile.update(commands)
      tile.element.hidden = words !== '' && !tile.matches(words)
    }
    for (const [id, program] of this.#model.programs) {
      let tile = this.#programs.get(id)
      if (tile === undefined) {
        tile = new ProgramTile(this.#client, program)
        this.#programs.set(id, tile)
        this.#add(tile.element)
      }
      tile.update()
      tile.element.hidden = words !== '' && !tile.matches(words)
    }
    this.#history.update(words)
    this.#questions.update()
    const asking = document.querySelectorAll('.asks').length
    document.title = asking === 0 ? 'nacre console' : `(${asking}) nacre console`
  }

  #sessionTile(id: string): SessionTile {
    let tile = this.#sessions.get(id)
    if (tile === undefined) {
      tile = new SessionTile(this.#client, id)
      this.#sessions.set(id, tile)
      this.#add(tile.element)
    }
    return tile
  }

  #add(element: HTMLElement): void {
    this.#grid.append(element)
    this.#seen.observe(element)
  }

  #removeSession(id: string): void {
    const tile = this.#sessions.get(id)
    if (tile !== undefined) this.#seen.unobserve(tile.element)
    tile?.dispose()
    this.#sessions.delete(id)
  }

  #removeProgram(id: string): void {
    const tile = this.#programs.get(id)
    if (tile !== undefined) this.#seen.unobserve(tile.element)
    tile?.dispose()
    this.#programs.delete(id)
  }

  #tileOf(element: Element): SessionTile | ProgramTile | undefined {
    return [...this.#sessions.values(), ...this.#programs.values()].find((tile) => tile.element === element)
  }

  #show(state: string): void {
    if (this.#isOver) return
    this.#state.classList.toggle('lost', state !== 'connected')
    setText(this.#state, state)
  }

  async #measure(): Promise<void> {
    try {
      const { memory, pids, sessions } = await this.#client.stats()
      setText(this.#stats, `${counted(sessions, 'session')}, ${counted(pids, 'process')}, ${size(memory)}`)
      this.#show('connected')
    } catch {
      this.#show('the server does not answer')
    }
  }
}

/** The token of the address goes out of it, so that it is in no history and no bookmark. */
function token(): string | undefined {
  const given = new URLSearchParams(location.hash.slice(1)).get('token')
  if (given !== null) {
    sessionStorage.setItem(TOKEN_KEY, given)
    history.replaceState(null, '', location.pathname)
  }
  return sessionStorage.getItem(TOKEN_KEY) || undefined
}

interface Server {
  client: SandboxClient
  headers: Record<string, string>
}

async function connect(): Promise<Server> {
  for (;;) {
    const given = token()
    const isToken = given !== undefined && /^[\x21-\x7e]+$/.test(given)
    const headers: Record<string, string> = isToken ? { Authorization: `Bearer ${given}` } : {}
    const { status } = await fetch(`${URL_OF_SERVER}/v1/capabilities`, { headers })
    if (status !== UNAUTHORIZED)
      return { client: new SandboxClient({ url: URL_OF_SERVER, token: given }), headers }
    const typed = await askToken()
    if (typed === undefined) throw new Error('it needs its token; load the page again')
    sessionStorage.setItem(TOKEN_KEY, typed)
  }
}

try {
  const page = new Page(await connect())
  page.run().catch((error) => page.fail(error))
} catch (error) {
  document.body.append(
    el('p', { role: 'alert' }, `The server cannot be reached: ${(error as Error).message}`),
  )
}
