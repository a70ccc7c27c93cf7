/** The screen of a terminal: what a person would see. */
import type { Terminal } from '@xterm/headless'

/** The size of every terminal. */
export const TERMINAL = { cols: 120, rows: 40 }

/** Programs that draw on the whole screen switch to another buffer at first, and back at the end. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they begin with one
const SWITCHES = /\x1b\[\?(?:1049|1047|47)([hl])/g
const LONGEST_SWITCH = 8

/** Finds out from the output whether a program draws on the whole screen. */
export class FullScreen {
  isOn = false
  #end = ''

  add(text: string): void {
    const all = this.#end + text
    for (const [, letter] of all.matchAll(SWITCHES)) this.isOn = letter === 'h'
    this.#end = all.slice(1 - LONGEST_SWITCH)
  }
}

export class Screen {
  readonly #terminal: Terminal

  private constructor(terminal: Terminal) {
    this.#terminal = terminal
  }

  /** Loads the emulator at the first use, which takes 25 ms. */
  static async open(): Promise<Screen> {
    const { default: xterm } = await import('@xterm/headless')
    return new Screen(new xterm.Terminal({ ...TERMINAL, scrollback: 0, allowProposedApi: true }))
  }

  write(text: string): Promise<void> {
    return new Promise((resolve) => this.#terminal.write(text, resolve))
  }

  /** Row and column of the cursor, from 1. */
  get cursor(): { row: number; column: number } {
    const { cursorX, cursorY } = this.#terminal.buffer.active
    return { row: cursorY + 1, column: cursorX + 1 }
  }

  /** The rows, without blanks at their ends and without empty rows at the end. */
  get text(): string {
    const { active } = this.#terminal.buffer
    const rows = Array.from(
      { length: TERMINAL.rows },
      (_, row) => active.getLine(active.viewportY + row)?.translateToString(true) ?? '',
    )
    return rows.join('\n').trimEnd()
  }

  close(): void {
    this.#terminal.dispose()
  }
}
