/**
 * A terminal in the page. It is drawn while it is on the screen; otherwise it keeps the end of its output.
 */
import { FitAddon } from '@xterm/addon-fit'
import { Terminal } from '@xterm/xterm'
import type { Size } from './model.ts'

/** Characters that are kept while it is not drawn. */
const MOST_KEPT = 256 * 1024
const SCROLLBACK = 1000
/** Lines that a screen shows, as its output grows. */
const LEAST_LINES = 3
const MOST_LINES = 16
/** A large one has this share of the height of the window. */
const LARGE = 0.7

export interface ScreenOptions {
  size: Size
  label: string
  /**
   * `terminal`: it has the size of its terminal, and shows as many lines as have been printed. `lines`: the width of the page,
   * too. `whole`: it shows all of the terminal.
   */
  shows: 'terminal' | 'lines' | 'whole'
}

export class Screen {
  readonly element = document.createElement('div')
  /** Receives what is typed. Undefined: the terminal only shows. */
  onInput: ((data: string) => void) | undefined
  /** Moves the focus out of it. */
  onLeave = () => {}
  readonly #fit = new FitAddon()
  readonly #resized = new ResizeObserver(() => this.#grow())
  readonly #options: ScreenOptions
  #terminal: Terminal | undefined
  #kept: (string | Uint8Array)[] = []
  #keptLength = 0
  #size: Size
  #isLarge = false
  /** The most lines that the output had. */
  #lines = 0
  /** Of the cursor, when it was last kept in sight. */
  #row = 0

  constructor(options: ScreenOptions) {
    this.#options = options
    this.#size = options.size
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
    if (this.#options.shows !== 'lines') this.#terminal?.resize(size.cols, size.rows)
  }

  set isLarge(isLarge: boolean) {
    this.#isLarge = isLarge
    this.#grow()
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
    const { shows, label } = this.#options
    const terminal = new Terminal({
      ...this.#size,
      ...(shows === 'lines' && { rows: LEAST_LINES }),
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
    terminal.loadAddon(this.#fit)
    terminal.open(this.element)
    terminal.onRender(() => {
      if (this.#lines < this.#most) this.#grow()
      this.#follow(terminal)
    })
    terminal.textarea?.setAttribute('aria-label', label)
    if (terminal.textarea !== undefined) terminal.textarea.tabIndex = this.onInput === undefined ? -1 : 0
    for (const data of this.#kept) terminal.write(data)
    this.#kept = []
    this.#keptLength = 0
    this.#terminal = terminal
    this.#resized.observe(this.element)
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

  get #lineHeight(): number {
    const height = this.#terminal?.element?.querySelector<HTMLElement>('.xterm-screen')?.offsetHeight ?? 0
    return height / (this.#terminal?.rows ?? 1)
  }

  get #most(): number {
    return this.#isLarge ? Math.floor((innerHeight * LARGE) / this.#lineHeight) : MOST_LINES
  }

  /** Shows as many lines as have been printed, within its bounds. */
  #grow(): void {
    const terminal = this.#terminal
    const { shows } = this.#options
    // The tile may be hidden.
    if (terminal === undefined || shows === 'whole' || this.element.clientWidth === 0) return
    const cols = this.#fit.proposeDimensions()?.cols
    if (cols === undefined) return
    this.#lines = Math.max(this.#lines, printed(terminal))
    const lines = Math.max(LEAST_LINES, Math.min(this.#lines, this.#most))
    if (shows === 'lines') {
      if (terminal.cols !== cols || terminal.rows !== lines) terminal.resize(cols, lines)
      return
    }
    this.element.style.height = `${Math.ceil(lines * this.#lineHeight)}px`
    this.element.style.overflowY = this.#lines > lines ? 'auto' : 'hidden'
  }

  /** The page keeps the keys that nothing reads, and F6, which leaves the terminal. */
  #takesKey(event: KeyboardEvent): boolean {
    if (this.onInput === undefined) return false
    if (event.key !== 'F6') return true
    if (event.type === 'keydown') this.onLeave()
    return false
  }

  /** Keeps the line of the cursor in sight when it has moved: the element can be smaller than the terminal. */
  #follow({ buffer }: Terminal): void {
    const row = buffer.active.cursorY
    if (row === this.#row) return
    this.#row = row
    const height = this.#lineHeight
    const { scrollTop, clientHeight } = this.element
    this.element.scrollTop = Math.min(row * height, Math.max(scrollTop, (row + 2) * height - clientHeight))
  }

  dispose(): void {
    this.#resized.disconnect()
    this.#terminal?.dispose()
    this.element.remove()
  }
}

/** The lines up to the last that has text, or to the cursor. */
function printed({ buffer: { active }, rows }: Terminal): number {
  let row = rows - 1
  while (row > active.cursorY && !active.getLine(active.baseY + row)?.translateToString(true)) row--
  return active.baseY + row + 1
}
