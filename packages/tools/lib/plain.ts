/** Output of programs as plain text: what a terminal would show at the end, without escape sequences. */

/** CSI, OSC, other strings, and the short ones. What is not finished at the end of the text counts, too. */
const ESCAPES =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they begin with one
  /(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b[ -/]*[0-~]?/g
const CONTROLS = /[^\P{Cc}\t\n]/gu
/** Characters that are not visible, but that a model reads. The joiners of scripts and emoji (U+200C, U+200D) stay. */
const INVISIBLE = /[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu

/** Removes escape sequences, control characters and invisible ones; keeps of each line what overwrote the rest. */
export function toPlainText(output: string): string {
  let text = output.replace(ESCAPES, '')
  if (/[\r\b]/.test(text)) text = text.split('\n').map(lastState).join('\n')
  return text.replace(CONTROLS, '').replace(INVISIBLE, '')
}

/** What a line shows after its carriage returns, also those at its end, and backspaces. */
function lastState(line: string): string {
  const shown = line.split('\r').findLast((state) => state !== '') ?? ''
  if (!shown.includes('\b')) return shown
  const characters: string[] = []
  for (const character of shown) {
    if (character === '\b') characters.pop()
    else characters.push(character)
  }
  return characters.join('')
}

/** Lines that would look like a header or a note of nacre's own. */
const FORGED = /^(?=\[(?:exit|r\d|service|session|job|timed out|killed|ended|use|do not|error|\.\.\.))/gm

/** Puts a blank before lines that would look like nacre's own. */
export function unforged(text: string): string {
  return text.replace(FORGED, ' ')
}
