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

export function button(label: string, act: () => unknown, attributes: Attributes = {}): HTMLButtonElement {
  return el('button', { type: 'button', onclick: () => void act(), ...attributes }, label)
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
