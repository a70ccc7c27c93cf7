/**
 * A terminal in the page. It is drawn while it is on the screen; otherwise it keeps the end of its output.
 */
import { Terminal } from '@xterm/xterm'
import type { Size } from './model.ts'

/** Characters that are kept while it is not drawn. */
const MOST_KEPT = 256 * 1024
const SCROLLBACK = 1000

export class Screen {
  readonly element = document.createElement('div')
  /** Receives what is typed. Undefined: the terminal only shows. */
  onInput: ((data: string) => void) | undefined
  /** Moves the focus out of it. */
  onLeave = () => {}
  #terminal: Terminal | undefined
  #kept: (string | Uint8Array)[] = []
  #keptLength = 0
  #size: Size
  /** Of the cursor, when it was last kept in sight. */
  #row = 0
  readonly #label: string

  constructor(size: Size, label: string) {
    this.#size = size
    this.#label = label
    this.element.className = 'screen'
  }

  /** Resolves when it has been drawn, or is kept. */
  write(data: string | Uint8Array): Promise<void> {
    const terminal = this.#terminal
    if (terminal !== undefined) return new Promise((resolve) => terminal.write(data, resolve))
    this.#kept.push(data)
    this.#keptLength += data.length
    while (this.#keptLength > MOST_KEPT && this.#kept.length > 1)
      this.#keptLength -= this.#kept.shift()?.length ?? 0
    return Promise.resolve()
  }

  resize(size: Size): void {
    this.#size = size
    this.#terminal?.resize(size.cols, size.rows)
  }

  /** Forgets everything. */
  reset(): void {
    this.#kept = []
    this.#keptLength = 0
    this.#terminal?.reset()
  }

  /** Draws it from now on. */
  show(): void {
    if (this.#terminal !== undefined) return
    const terminal = new Terminal({
      ...this.#size,
      scrollback: SCROLLBACK,
      fontSize: 12,
      fontFamily: 'ui-monospace, Menlo, Consolas, monospace',
      screenReaderMode: this.onInput !== undefined,
      disableStdin: this.onInput === undefined,
      // Links of programs lead nowhere.
      linkHandler: { activate() {} },
      theme: { background: '#16181d', foreground: '#e4e6eb' },
    })
    // Programs may neither read nor write the clipboard.
    terminal.parser.registerOscHandler(52, () => true)
    terminal.onData((data) => this.onInput?.(data))
    terminal.attachCustomKeyEventHandler((event) => this.#takesKey(event))
    terminal.open(this.element)
    terminal.onRender(() => this.#follow(terminal))
    terminal.textarea?.setAttribute('aria-label', this.#label)
    if (terminal.textarea !== undefined) terminal.textarea.tabIndex = this.onInput === undefined ? -1 : 0
    for (const data of this.#kept) terminal.write(data)
    this.#kept = []
    this.#keptLength = 0
    this.#terminal = terminal
  }

  setInput(onInput: ((data: string) => void) | undefined): void {
    this.onInput = onInput
    if (this.#terminal === undefined) return
    this.#terminal.options.disableStdin = onInput === undefined
    // It costs time for each line.
    this.#terminal.options.screenReaderMode = onInput !== undefined
    if (this.#terminal.textarea !== undefined)
      this.#terminal.textarea.tabIndex = onInput === undefined ? -1 : 0
    if (onInput !== undefined) this.#terminal.focus()
  }

  /** The page keeps the keys that nothing reads, and F6, which leaves the terminal. */
  #takesKey(event: KeyboardEvent): boolean {
    if (this.onInput === undefined) return false
    if (event.key !== 'F6') return true
    if (event.type === 'keydown') this.onLeave()
    return false
  }

  /** Keeps the line of the cursor in sight when it has moved: the element can be smaller than the terminal. */
  #follow({ buffer, rows, element }: Terminal): void {
    const row = buffer.active.cursorY
    if (row === this.#row || element === undefined) return
    this.#row = row
    const height = element.clientHeight / rows
    const { scrollTop, clientHeight } = this.element
    this.element.scrollTop = Math.min(row * height, Math.max(scrollTop, (row + 2) * height - clientHeight))
  }

  dispose(): void {
    this.#terminal?.dispose()
    this.element.remove()
  }
}
