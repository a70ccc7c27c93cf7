/** The list of all commands, the newest first. */
import type { Usage } from 'nacre'
import { el, size, span } from './dom.ts'
import type { Command, Model } from './model.ts'

const MOST_ROWS = 300

export class History {
  readonly element: HTMLElement
  readonly #rows = el('tbody')
  readonly #model: Model
  /** What the rows were made from. */
  #shown = ''

  constructor(model: Model) {
    this.#model = model
    const names = ['Session', 'Command', 'End', 'Time', 'Used', 'Output', 'Directory']
    this.element = el(
      'section',
      { id: 'history', 'aria-label': 'Commands', tabindex: '0' },
      el('h2', {}, 'Commands'),
      el(
        'table',
        {},
        el('thead', {}, el('tr', {}, ...names.map((name) => el('th', { scope: 'col' }, name)))),
        this.#rows,
      ),
    )
  }

  update(words: string): void {
    const { version, isLive } = this.#model
    const shown = `${version} ${isLive} ${words}`
    if (shown === this.#shown) return
    this.#shown = shown
    const needle = words.toLowerCase()
    const commands = [...this.#model.sessions.values()]
      .flat()
      .filter(({ text, sessionId, cwd }) => `${sessionId} ${text} ${cwd}`.toLowerCase().includes(needle))
      .sort((left, right) => right.startTime.getTime() - left.startTime.getTime())
    this.#rows.replaceChildren(...commands.slice(0, MOST_ROWS).map((command) => rowOf(command, isLive)))
  }
}

/** Processor time, and bytes where there are some. */
function used({ cpuMs, readBytes, writtenBytes, sentBytes = 0, receivedBytes = 0 }: Usage): string {
  const bytes = { read: readBytes, written: writtenBytes, sent: sentBytes, received: receivedBytes }
  const texts = Object.entries(bytes).flatMap(([name, count]) =>
    count > 0 ? [`${size(count)} ${name}`] : [],
  )
  return [`${span(cpuMs)} of processors`, ...texts].join(', ')
}

function rowOf(command: Command, isLive: boolean): HTMLElement {
  const { sessionId, text, state, end, duration, usage, bytes, cwd, failed } = command
  const cells = [
    sessionId,
    text,
    state === 'ended' ? end : isLive ? state : 'unknown',
    state === 'ended' ? span(duration) : '',
    usage === undefined ? '' : used(usage),
    size(bytes),
    cwd,
  ]
  return el(
    'tr',
    failed ? { class: 'failed' } : {},
    ...cells.map((cell, at) =>
      el(at === 1 ? 'th' : 'td', at === 1 ? { scope: 'row', title: cell } : {}, cell),
    ),
  )
}
