/**
 * What a command or a process without a terminal prints, as a terminal would show it: one of its own would begin each line at
 * the left.
 */
export class ShellText {
  readonly #decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() }
  /** Whether the next text begins a line. */
  isAtStart = true

  add(stream: 'stdout' | 'stderr', bytes: Uint8Array): string {
    const text = this.#decoders[stream].decode(bytes, { stream: true }).replace(/\r?\n/g, '\r\n')
    if (text !== '') this.isAtStart = text.endsWith('\n')
    return text
  }

  /** Bytes are missing: the next ones may begin within a character. */
  skip(stream: 'stdout' | 'stderr'): string {
    const rest = this.#decoders[stream].decode()
    this.isAtStart &&= rest === ''
    return rest
  }
}
