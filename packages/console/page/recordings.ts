/** The recordings of the server, which the page plays. */
import { attempt } from './ask.ts'
import { button, el, setText, size } from './dom.ts'
import { play } from './player.ts'

const NOT_FOUND = 404
const LIST = '/v1/recordings'
const MOST_ROWS = 200

interface Recording {
  name: string
  bytes: number
  modifiedAt: string
}

export class RecordingsPanel {
  readonly element: HTMLElement
  /** Asks the server, with the token. */
  readonly #ask: (path: string) => Promise<Response>
  readonly #list = el('ul', { class: 'changes' })
  readonly #count = el('span')

  constructor(ask: (path: string) => Promise<Response>) {
    this.#ask = ask
    this.element = el(
      'section',
      { id: 'recordings', 'aria-label': 'Recordings' },
      el('h2', {}, 'Recordings ', this.#count),
      el(
        'p',
        { class: 'buttons' },
        button('Refresh', () => attempt(async () => this.#fill(await this.#ask(LIST)))),
      ),
      this.#list,
    )
  }

  /** Adds the panel to the page, unless the server has no recordings. */
  async addAfter(other: HTMLElement): Promise<void> {
    const reply = await this.#ask(LIST)
    if (reply.status === NOT_FOUND) return
    other.after(this.element)
    await this.#fill(reply)
  }

  async #fill(reply: Response): Promise<void> {
    if (!reply.ok) throw new Error(`the recordings cannot be listed: ${reply.status}`)
    const { recordings } = (await reply.json()) as { recordings: Recording[] }
    const shown = recordings.length > MOST_ROWS ? `the newest ${MOST_ROWS} of ` : ''
    setText(this.#count, `(${shown}${recordings.length})`)
    const rows = recordings.slice(0, MOST_ROWS).map(({ name, bytes, modifiedAt }) =>
      el(
        'li',
        {},
        button(`Play ${name}`, () => attempt(() => this.#play(name))),
        ` ${size(bytes)}, ${new Date(modifiedAt).toLocaleString()}`,
      ),
    )
    this.#list.replaceChildren(...rows)
  }

  async #play(name: string): Promise<void> {
    const reply = await this.#ask(`/v1/recordings/${encodeURIComponent(name)}`)
    if (!reply.ok) throw new Error(`${name} is gone`)
    play(name, await reply.text())
  }
}
