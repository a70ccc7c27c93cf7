/** The recordings of the server, which the page plays. */
import { attempt } from './ask.ts'
import { el, row, setRows, Tab } from './dom.ts'
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
  readonly #list = el('ul', { class: 'rows' })
  readonly tab = new Tab('Recordings', () => this.element)
  #shown = ''

  constructor(ask: (path: string) => Promise<Response>) {
    this.#ask = ask
    this.element = el(
      'section',
      { id: 'recordings', 'aria-label': 'Recordings' },
      el('h2', {}, 'Recordings ', this.tab.number()),
      this.#list,
    )
  }

  /** False when the server has no recordings. */
  async isEnabled(): Promise<boolean> {
    return (await this.#ask(LIST)).status !== NOT_FOUND
  }

  async refresh(): Promise<void> {
    const reply = await this.#ask(LIST)
    if (!reply.ok) throw new Error(`the recordings cannot be listed: ${reply.status}`)
    const text = await reply.text()
    if (text === this.#shown) return
    this.#shown = text
    const { recordings } = JSON.parse(text) as { recordings: Recording[] }
    this.tab.count = recordings.length
    const rows = recordings.slice(0, MOST_ROWS).map(({ name, bytes, modifiedAt }) => {
      // The names that a recorder gives.
      const [, kind = 'recording', rest = name] = /^(session|process)-(.+)$/.exec(name) ?? []
      return row({
        ...{ kind, name: rest, bytes, time: new Date(modifiedAt), label: `Play ${name}` },
        act: () => attempt(() => this.#play(name)),
      })
    })
    if (recordings.length > MOST_ROWS)
      rows.push(el('li', {}, `and ${recordings.length - MOST_ROWS} older ones`))
    setRows(this.#list, rows)
  }

  async #play(name: string): Promise<void> {
    const reply = await this.#ask(`/v1/recordings/${encodeURIComponent(name)}`)
    if (!reply.ok) {
      // It has been compressed or removed meanwhile.
      await this.refresh()
      throw new Error(`${name} is not there any more`)
    }
    play(name, await reply.text())
  }
}
