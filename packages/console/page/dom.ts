/** Elements, from their tag, attributes and children. Text is never parsed as HTML. */

type Attributes = Record<string, string | boolean | undefined | ((event: never) => void)>
type Child = Node | string

/** `class` and the like are attributes; `onclick` and the like are listeners; false and undefined leave an attribute out. */
export function el<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name.slice(2), value as EventListener)
    else if (value === true) element.setAttribute(name, '')
    else if (typeof value === 'string') element.setAttribute(name, value)
  }
  element.append(...children)
  return element
}

/** Replaces text only where it differs, so that a selection stays. */
export function setText(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text
}

export function button(
  label: string,
  act: () => unknown,
  attributes: Attributes = {},
  children: Child[] = [label],
): HTMLButtonElement {
  return el('button', { type: 'button', onclick: () => void act(), ...attributes }, ...children)
}

/** Like 1 session, or 2 processes. */
export function counted(count: number, one: 'session' | 'process'): string {
  return `${count} ${one}${count === 1 ? '' : one === 'process' ? 'es' : 's'}`
}

/** Like 1.5 MB. */
export function size(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB']
  let unit = 0
  while (bytes >= 1000 && unit < units.length - 1) {
    bytes /= 1000
    unit++
  }
  return `${unit === 0 || bytes >= 100 ? Math.round(bytes) : bytes.toFixed(1)} ${units[unit]}`
}

/** Like 3.2 s or 12 min. */
export function span(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`
  if (milliseconds < 60_000) return `${(milliseconds / 1000).toFixed(1)} s`
  if (milliseconds < 3_600_000) return `${Math.round(milliseconds / 60_000)} min`
  return `${(milliseconds / 3_600_000).toFixed(1)} h`
}

/** How long something has run, like 12 s or 3 min. */
export function age(since: Date): string {
  const milliseconds = Math.max(0, Date.now() - since.getTime())
  return milliseconds < 60_000 ? `${Math.floor(milliseconds / 1000)} s` : span(milliseconds)
}

/** The time of a day, with the day unless it is today. */
function clock(time: Date): string {
  const timeStyle = 'short'
  const isToday = time.toDateString() === new Date().toDateString()
  return time.toLocaleString(undefined, isToday ? { timeStyle } : { dateStyle: 'short', timeStyle })
}

export interface Row {
  /** What the badge says, and its class. */
  kind: string
  name: string
  bytes: number | undefined
  time: Date | undefined
  /** The name of the button, for screen readers. */
  label: string
  act: () => unknown
}

/** A file or a recording in a list: the whole row is a button. */
export function row({ kind, name, bytes, time, label, act }: Row): HTMLLIElement {
  return el(
    'li',
    {},
    button('', act, { class: 'row', 'aria-label': label, title: name }, [
      el('span', { class: `kind ${kind}` }, kind),
      el('span', { class: 'name' }, name),
      el('span', {}, bytes === undefined ? '' : size(bytes)),
      time === undefined ? '' : el('time', { datetime: time.toISOString() }, clock(time)),
    ]),
  )
}

/** Replaces the rows of a list. The button of the same name keeps the focus. */
export function setRows(list: HTMLUListElement, rows: HTMLLIElement[]): void {
  const focused = list.contains(document.activeElement)
    ? document.activeElement?.getAttribute('aria-label')
    : undefined
  list.replaceChildren(...rows)
  if (typeof focused !== 'string') return
  list.querySelector<HTMLElement>(`[aria-label="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true })
}

/** Leads to a part of the page, and counts what is there. */
export class Tab {
  readonly element: HTMLButtonElement
  readonly #numbers: HTMLElement[] = []

  constructor(name: string, target: () => Element) {
    this.element = button('', () => target().scrollIntoView(), { class: 'tab' }, [`${name} `, this.number()])
  }

  /** An element with the number. */
  number(): HTMLElement {
    const element = el('span', { class: 'number' })
    this.#numbers.push(element)
    return element
  }

  set count(count: number) {
    for (const element of this.#numbers) setText(element, String(count))
  }
}
