/** The list of requests to hosts with a secret or rules, the newest first. */
import { el, setText, size, span, Tab } from './dom.ts'
import type { Model, Requested } from './model.ts'

const MOST_ROWS = 300
const FAILURES = 400

export class RequestsPanel {
  readonly element: HTMLElement
  readonly tab = new Tab('Requests', () => this.element)
  readonly #rows = el('tbody')
  readonly #model: Model
  readonly #filter = el('input', {
    ...{ type: 'search', placeholder: 'Host, method or path', 'aria-label': 'Filter requests' },
    oninput: () => this.#show(),
  })
  readonly #onlyDenied = el('input', { type: 'checkbox', onchange: () => this.#show() })
  readonly #empty = el('p', { class: 'none' })
  #words = ''
  /** What the rows were made from. */
  #last: Requested | undefined
  #shown = ''

  constructor(model: Model) {
    this.#model = model
    const names = ['Session', 'Request', 'Host', 'Status', 'Time', 'Sent', 'Received', 'Secrets']
    this.element = el(
      'section',
      { id: 'requests', 'aria-label': 'Requests', tabindex: '0', hidden: true },
      el(
        'header',
        {},
        el('h2', {}, 'Requests ', this.tab.number()),
        this.#filter,
        el('label', {}, this.#onlyDenied, ' Denied only'),
      ),
      el(
        'table',
        {},
        el('thead', {}, el('tr', {}, ...names.map((name) => el('th', { scope: 'col' }, name)))),
        this.#rows,
      ),
      this.#empty,
    )
    this.tab.element.hidden = true
  }

  /** `words`: what the whole page is searched for. */
  update(words: string): void {
    this.#words = words.toLowerCase()
    this.#show()
  }

  #show(): void {
    const { requests } = this.#model
    const filter = this.#filter.value.trim().toLowerCase()
    const shown = JSON.stringify([this.#words, filter, this.#onlyDenied.checked])
    const last = requests.at(-1)
    if (last === this.#last && shown === this.#shown) return
    this.#last = last
    this.#shown = shown
    this.element.hidden = requests.length === 0
    this.tab.element.hidden = requests.length === 0
    this.tab.count = requests.length
    const has = (text: string) => text.includes(this.#words) && text.includes(filter)
    const found = requests.filter(
      (one) => (one.denied !== undefined || !this.#onlyDenied.checked) && has(textOf(one)),
    )
    this.#rows.replaceChildren(...found.slice(-MOST_ROWS).reverse().map(rowOf))
    setText(this.#empty, found.length === 0 ? 'No request is like that.' : '')
  }
}

/** What is searched. */
function textOf({ sessionId, method, path, host, denied }: Requested): string {
  return `${sessionId} ${method} ${path} ${host} ${denied ?? ''}`.toLowerCase()
}

function rowOf(request: Requested): HTMLElement {
  const { sessionId, method, path, host, status, denied, ms, sent, received, secrets = [] } = request
  const what = `${method} ${path}`
  const [look, text] =
    denied !== undefined
      ? ['deleted', `denied: ${denied}`]
      : status === null
        ? ['deleted', 'cut off']
        : [status >= FAILURES ? 'deleted' : 'created', String(status)]
  return el(
    'tr',
    denied === undefined ? {} : { class: 'denied' },
    el('td', {}, sessionId),
    el('th', { scope: 'row', title: what }, what),
    el('td', { title: host }, host),
    el('td', {}, el('span', { class: `kind ${look}` }, text)),
    el('td', {}, span(ms)),
    el('td', {}, size(sent)),
    el('td', {}, size(received)),
    el('td', {}, secrets.join(', ')),
  )
}
