/** Output of programs as plain text: what a terminal would show at the end, without escape sequences. */

/** CSI, OSC, other strings, and the short ones. What is not finished at the end of the text counts, too. */
const ESCAPES =
  /(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b[ -/]*[0-~]?/g
const CONTROLS = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/g
/** Characters that are not visible, but that a model reads. The joiners of scripts and emoji (U+200C, U+200D) stay. */
const INVISIBLE = /[\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\u{e0000}-\u{e007f}]/gu

/** Removes escape sequences, control characters and invisible ones; keeps of each line what overwrote the rest. */
export function toPlainText(output: string): string {
  let text = output.replace(ESCAPES, '').replace(/\r+\n/g, '\n')
  if (/[\r\b]/.test(text)) text = text.split('\n').map(lastState).join('\n')
  return text.replace(CONTROLS, '').replace(INVISIBLE, '')
}

/** What a line shows after its carriage returns and backspaces. */
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
