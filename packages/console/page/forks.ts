/** The forks of the sandbox beside each other: what runs in each, where it listens, and what it has changed. */
import type { OpenPort, Review } from 'nacre'
import type { SandboxClient } from 'nacre/client'
import { attempt } from './ask.ts'
import { age, button, counted, el, setText, Tab } from './dom.ts'
import { GROUPS, WorkspacePanel } from './workspace.ts'

const NOT_FOUND = 404
const LIST = '/v1/forks'
/** Links are made for an hour, and again before they expire. */
const LINK_MS = 3_600_000
/** So many sessions are asked for their commands: each costs a call. */
const MOST_SESSIONS = 4

interface Link {
  element: HTMLAnchorElement
  madeAt: number
}

export class ForksPanel {
  readonly element: HTMLElement
  readonly tab = new Tab('Forks', () => this.element)
  /** Asks the server, with the token. */
  readonly #ask: (path: string) => Promise<Response>
  readonly #clientOf: (path: string) => SandboxClient
  readonly #tiles = new Map<string, ForkTile>()
  readonly #list = el('div', { class: 'forks' })

  /** `clientOf` makes a client of the routes below a path. */
  constructor(ask: (path: string) => Promise<Response>, clientOf: (path: string) => SandboxClient) {
    this.#ask = ask
    this.#clientOf = clientOf
    this.element = el(
      'section',
      { id: 'forks', 'aria-label': 'Forks', hidden: true },
      el('h2', {}, 'Forks ', this.tab.number()),
      this.#list,
    )
    this.tab.element.hidden = true
  }

  /** False when the server serves no forks. */
  async isEnabled(): Promise<boolean> {
    return (await this.#ask(LIST)).status !== NOT_FOUND
  }

  async refresh(): Promise<void> {
    const reply = await this.#ask(LIST)
    if (!reply.ok) throw new Error(`the forks cannot be listed: ${reply.status}`)
    const { forks } = (await reply.json()) as { forks: { name: string }[] }
    const names = new Set(forks.map(({ name }) => name))
    for (const [name, tile] of this.#tiles) if (!names.has(name)) this.#remove(name, tile)
    for (const name of names) if (!this.#tiles.has(name)) this.#add(name)
    this.tab.count = names.size
    this.element.hidden = names.size === 0
    this.tab.element.hidden = names.size === 0
    // One after another: a browser allows six connections to a server. A fork can end meanwhile.
    for (const tile of this.#tiles.values()) await tile.refresh().catch(() => {})
  }

  #add(name: string): void {
    const tile = new ForkTile(name, this.#clientOf(`/forks/${name}`))
    this.#tiles.set(name, tile)
    this.#list.append(tile.element)
  }

  #remove(name: string, tile: ForkTile): void {
    this.#tiles.delete(name)
    tile.dispose()
  }
}

class ForkTile {
  readonly element: HTMLElement
  readonly #client: SandboxClient
  readonly #state = el('span', { class: 'state' })
  readonly #command = el('p', { class: 'command' })
  readonly #ports = el('ul', { class: 'ports' })
  readonly #changes = el('p', { class: 'groups' })
  readonly #links = new Map<number, Link>()
  readonly #workspace: WorkspacePanel
  readonly #review = button('Review', () => attempt(() => this.#toggle()), { 'aria-expanded': 'false' })
  /** What the groups were made from. */
  #shown = ''
  /** Changes with what happens in the fork, as that of a model. */
  readonly #happened = { version: 0 }

  constructor(name: string, client: SandboxClient) {
    this.#client = client
    this.#workspace = new WorkspacePanel(client, this.#happened, { 'aria-label': `Changes of ${name}` })
    this.#workspace.element.hidden = true
    this.element = el(
      'article',
      { class: 'fork', 'aria-label': `fork ${name}`, 'data-fork': name },
      el('header', {}, el('h2', { title: name }, name), this.#state, this.#command),
      this.#ports,
      this.#changes,
      el(
        'footer',
        {},
        // The whole console, of this fork alone.
        el('a', { href: `forks/${name}/console` }, 'Sessions'),
        el('span', { class: 'buttons' }, this.#review),
      ),
      this.#workspace.element,
    )
  }

  async refresh(): Promise<void> {
    await this.#showCommands()
    await this.#showPorts(await this.#client.ports())
    await this.#showChanges()
    if (!this.#workspace.element.hidden) await this.#workspace.refresh()
  }

  dispose(): void {
    this.element.remove()
    void this.#client.close()
  }

  async #showCommands(): Promise<void> {
    const { sessions, pids } = await this.#client.stats()
    const all = await this.#client.listSessions()
    const running = (
      await Promise.all(all.slice(0, MOST_SESSIONS).map((session) => session.running()))
    ).flat()
    const [first] = running
    setText(
      this.#state,
      first === undefined
        ? `${counted(sessions, 'session')}, ${counted(pids, 'process')}`
        : `running ${age(new Date(first.timestamp ?? Date.now()))}`,
    )
    this.element.classList.toggle('running', first !== undefined)
    const text = running.map(({ command }) => command).join('; ')
    if (this.#command.textContent !== text) this.#happened.version++
    setText(this.#command, text)
    this.#command.title = text
  }

  /** A link is a right, so it is made for the one who clicks, and expires. */
  async #showPorts(ports: OpenPort[]): Promise<void> {
    const open = new Map(ports.map(({ port, command }) => [port, command]))
    for (const [port, { element, madeAt }] of this.#links) {
      if (open.has(port) && Date.now() - madeAt < LINK_MS / 2) continue
      element.parentElement?.remove()
      this.#links.delete(port)
    }
    for (const [port, command] of open) {
      if (this.#links.has(port)) continue
      const href = await this.#client.portUrl(port, { expiresIn: LINK_MS })
      const element = el(
        'a',
        { href, title: command, target: '_blank', rel: 'noopener noreferrer' },
        `:${port}`,
      )
      this.#links.set(port, { element, madeAt: Date.now() })
      this.#ports.append(el('li', {}, element))
    }
  }

  async #showChanges(): Promise<void> {
    const changes = await this.#client.workspace.changes()
    const shown = JSON.stringify(changes.map(({ path, type, size }) => [path, type, size]))
    if (shown === this.#shown) return
    // Only what is in which group.
    const review = await this.#client.workspace.review({ maxBytes: 1 })
    this.#shown = shown
    this.#happened.version++
    const groups = (Object.keys(GROUPS) as (keyof Review)[]).filter((group) => review[group].length > 0)
    this.#changes.replaceChildren(
      ...(groups.length === 0
        ? ['no changes']
        : groups.map((group) =>
            el('span', { class: `group ${group}` }, `${GROUPS[group]} ${review[group].length}`),
          )),
    )
  }

  async #toggle(): Promise<void> {
    const { element } = this.#workspace
    element.hidden = !element.hidden
    this.#review.setAttribute('aria-expanded', String(!element.hidden))
    if (!element.hidden) await this.#workspace.refresh()
  }
}
