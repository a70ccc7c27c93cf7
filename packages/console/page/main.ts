/** The page: what runs in a sandbox, live. */
import type { SandboxEvent } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { askToken, attempt } from './ask.ts'
import { Connections } from './connections.ts'
import { denialsPanel } from './denials.ts'
import { age, button, counted, el, setText, size } from './dom.ts'
import { ForksPanel } from './forks.ts'
import { Grid } from './grid.ts'
import { History } from './history.ts'
import { Model } from './model.ts'
import { ProgramTile } from './program-tile.ts'
import { QuestionsPanel } from './questions.ts'
import { RecordingsPanel } from './recordings.ts'
import { repeat } from './repeat.ts'
import { requestsPanel } from './requests.ts'
import { SessionTile } from './session-tile.ts'
import { WorkspacePanel } from './workspace.ts'

const TOKEN_KEY = 'nacre.token'
const STATS_MS = 2000
/** Not by frames: a page in the background has none, and its title still counts who waits. */
const DRAW_MS = 100
/** How often times of what runs go on. */
const TICK_MS = 1000
const UNAUTHORIZED = 401

/** The address of the server. The page may be below a path of a proxy. */
const URL_OF_SERVER = `${location.origin}${location.pathname.replace(/\/console\/?$/, '')}`

class Page {
  readonly #client: SandboxClient
  readonly #model = new Model()
  readonly #history = new History(this.#model)
  readonly #lists = [requestsPanel(this.#model), denialsPanel(this.#model)]
  readonly #workspace: WorkspacePanel
  readonly #recordings: RecordingsPanel
  readonly #questions: QuestionsPanel
  readonly #forks: ForksPanel
  readonly #connections = new Connections()
  readonly #sessions = new Map<string, SessionTile>()
  readonly #programs = new Map<string, ProgramTile>()
  readonly #grid = new Grid()
  readonly #waiting = button('', () => jump('.asks'), { class: 'count waits' })
  readonly #failed = button('', () => jump('.tile.failed'), { class: 'count fails' })
  readonly #longest = el('span', { class: 'count' })
  readonly #tabs = el('nav', { 'aria-label': 'Parts of the page' })
  readonly #panels = el('aside', { 'aria-label': 'Files and recordings' })
  readonly #empty: HTMLElement
  readonly #state = el('span', { id: 'state', role: 'status' }, 'connecting')
  readonly #stats = el('span', { id: 'stats' })
  readonly #search = el('input', { type: 'search', placeholder: 'Search', 'aria-label': 'Search' })
  #isDrawn = true
  /** Aborted: nothing follows any more. */
  readonly #over = new AbortController()

  constructor({ client, headers, clientOf }: Server) {
    this.#client = client
    this.#workspace = new WorkspacePanel(client, this.#model)
    this.#questions = new QuestionsPanel(client, this.#model)
    const ask = (path: string) => fetch(URL_OF_SERVER + path, { headers })
    this.#recordings = new RecordingsPanel(ask)
    this.#forks = new ForksPanel(ask, clientOf)
    this.#empty = emptyState('Authorization' in headers)
    this.#tabs.append(...this.#lists.map(({ tab }) => tab.element))
    this.#search.addEventListener('input', () => this.#draw())
    document.body.append(
      el(
        'header',
        { id: 'top' },
        el('h1', {}, el('img', { src: logo(), alt: '' }), 'nacre', ...placeOf()),
        el('p', { id: 'counts' }, this.#waiting, this.#failed, this.#longest),
        el('p', { id: 'about' }, this.#state, this.#stats),
        this.#tabs,
        this.#search,
      ),
      el(
        'main',
        {},
        this.#questions.element,
        this.#forks.element,
        el(
          'div',
          { id: 'work' },
          ...[this.#empty, this.#grid.element],
          ...this.#lists.map(({ element }) => element),
          this.#history.element,
        ),
        this.#panels,
      ),
    )
  }

  async run(): Promise<void> {
    await this.#model.load(this.#client)
    this.#draw()
    this.#show('connected')
    void this.#addPanels()
    setInterval(() => void this.#measure(), STATS_MS)
    setInterval(() => this.#draw(), TICK_MS)
    void this.#measure()
    for await (const event of this.#client.events({ since: 0 })) this.#receive(event)
    this.#end('the sandbox has ended')
  }

  fail(error: unknown): void {
    this.#end(`connection lost: ${error instanceof Error ? error.message : error}. Load the page again.`)
  }

  #end(state: string): void {
    this.#show(state)
    this.#over.abort()
    for (const control of this.#panels.querySelectorAll('button')) control.disabled = true
  }

  /** Adds those that the server has. */
  async #addPanels(): Promise<void> {
    for (const panel of [this.#workspace, this.#recordings])
      await attempt(async () => {
        if (!(await panel.isEnabled())) return
        this.#panels.append(panel.element)
        this.#tabs.append(panel.tab.element)
        void repeat(() => panel.refresh(), this.#over.signal)
      })
    await attempt(async () => {
      if (!(await this.#forks.isEnabled())) return
      this.#tabs.prepend(this.#forks.tab.element)
      void repeat(() => this.#forks.refresh(), this.#over.signal)
    })
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
    const { isLive, sessions, programs } = this.#model
    const words = this.#search.value.trim()
    for (const id of this.#sessions.keys()) if (!sessions.has(id)) this.#removeSession(id)
    for (const id of this.#programs.keys()) if (!programs.has(id)) this.#removeProgram(id)
    for (const [id, commands] of sessions) this.#sessionTile(id).update(commands, isLive)
    for (const id of programs.keys()) this.#programTile(id)?.update(isLive)
    const tiles = [...this.#sessions.values(), ...this.#programs.values()]
    for (const tile of tiles) tile.element.hidden = words !== '' && !tile.matches(words)
    this.#grid.arrange(tiles)
    this.#history.update(words)
    for (const list of this.#lists) list.update(words)
    this.#questions.update()
    this.#empty.hidden =
      !this.#forks.element.hidden ||
      programs.size > 0 ||
      [...sessions.values()].some((commands) => commands.length > 0)
    this.#count(tiles.filter(({ status }) => status === 'failed').length)
  }

  #count(failed: number): void {
    const waiting = document.querySelectorAll('.asks').length
    setText(this.#waiting, `${waiting} ${waiting === 1 ? 'waits' : 'wait'} for you`)
    setText(this.#failed, `${failed} failed`)
    this.#waiting.disabled = waiting === 0
    this.#failed.disabled = failed === 0
    const longest = this.#model.isLive ? this.#model.longest : undefined
    setText(
      this.#longest,
      longest === undefined ? '' : `runs longest: ${longest.name}, ${age(longest.startTime)}`,
    )
    document.title = waiting === 0 ? 'nacre console' : `(${waiting}) nacre console`
  }

  #sessionTile(id: string): SessionTile {
    let tile = this.#sessions.get(id)
    if (tile === undefined) {
      tile = new SessionTile(this.#client, id, this.#connections)
      this.#sessions.set(id, tile)
      this.#grid.add(tile)
    }
    return tile
  }

  #programTile(id: string): ProgramTile | undefined {
    const program = this.#model.programs.get(id)
    let tile = this.#programs.get(id)
    if (tile === undefined && program !== undefined) {
      tile = new ProgramTile(this.#client, program, this.#connections, () => {
        this.#model.programs.delete(id)
        this.#draw()
      })
      this.#programs.set(id, tile)
      this.#grid.add(tile)
    }
    return tile
  }

  #removeSession(id: string): void {
    this.#grid.remove(this.#sessions.get(id))
    this.#sessions.delete(id)
  }

  #removeProgram(id: string): void {
    this.#grid.remove(this.#programs.get(id))
    this.#programs.delete(id)
  }

  #show(state: string): void {
    if (this.#over.signal.aborted) return
    const isLive = state === 'connected'
    this.#state.classList.toggle('lost', !isLive)
    setText(this.#state, state)
    if (!isLive) setText(this.#stats, '')
    if (this.#model.isLive === isLive) return
    this.#model.isLive = isLive
    this.#draw()
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

/** Goes to the first element, and to its first button that can be used. */
function jump(selector: string): void {
  const element = [...document.querySelectorAll<HTMLElement>(selector)].find(({ hidden }) => !hidden)
  element?.scrollIntoView({ block: 'center' })
  element?.querySelector<HTMLElement>('button:enabled')?.focus({ preventScroll: true })
}

/** Of which fork the page is, with a link to the page of them all. */
function placeOf(): HTMLElement[] {
  const [, name] = /\/forks\/([a-z0-9-]+)$/.exec(URL_OF_SERVER) ?? []
  if (name === undefined) return []
  return [el('span', { class: 'place' }, name), el('a', { href: '../../console' }, 'All forks')]
}

/** The page has it once, as its icon. */
function logo(): string {
  return document.querySelector<HTMLLinkElement>('link[rel=icon]')?.href ?? ''
}

/** What to do while nothing has run. */
function emptyState(needsToken: boolean): HTMLElement {
  const command = [
    `curl ${URL_OF_SERVER}/v1/exec`,
    ...(needsToken ? ['-H "Authorization: Bearer $TOKEN"'] : []),
    '-H "Content-Type: application/json"',
    `-d '{"command": "echo hello"}'`,
  ].join(' \\\n  ')
  return el(
    'section',
    { id: 'empty', 'aria-label': 'Nothing has run yet' },
    el('h2', {}, 'Nothing has run yet'),
    el('p', {}, 'Commands and processes of programs and agents appear here while they run. Try one:'),
    el('pre', { tabindex: '0', 'aria-label': 'A command to try' }, command),
    el('p', {}, 'Or choose “Take over” below, and type a command.'),
  )
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
  /** Makes a client of the routes below a path. */
  clientOf: (path: string) => SandboxClient
}

async function connect(): Promise<Server> {
  for (;;) {
    const given = token()
    const isToken = given !== undefined && /^[\x21-\x7e]+$/.test(given)
    const headers: Record<string, string> = isToken ? { Authorization: `Bearer ${given}` } : {}
    const { status } = await fetch(`${URL_OF_SERVER}/v1/capabilities`, { headers })
    if (status !== UNAUTHORIZED) {
      const clientOf = (path: string) => new SandboxClient({ url: URL_OF_SERVER + path, token: given })
      return { client: clientOf(''), headers, clientOf }
    }
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
