/**
 * `lines: true`: a result whose stdout, stderr and all are arrays of lines.
 *
 * A line that marks omitted output is an ordinary item.
 */
import { defineLazily } from '../base/lazy.js'
import type { Encoding, ExecResult } from '../calls/index.js'
import type { LineForm } from '../requests/exec.js'
import { withoutReturn } from './lines.js'

/** Replaces the text of a result with its lines. The object stays the same, so an error that holds it shows lines too. */
export function toLines(result: ExecResult<Encoding>, form: LineForm): void {
  const lined = result as ExecResult<Encoding, boolean>
  // Reading the property here would join text that may never be used.
  const all = Object.getOwnPropertyDescriptor(result, 'all')
  defineLazily(lined, 'all', () => splitLines(String(all?.get?.call({}) ?? all?.value), form))
  lined.stdout = splitLines(String(result.stdout), form)
  lined.stderr = splitLines(String(result.stderr), form)
}

/** Splits a text into lines. A final newline ends the last line and does not begin another. */
function splitLines(text: string, form: LineForm): string[] {
  const lines = text.split('\n')
  const rest = lines.pop() ?? ''
  const hasReturns = text.includes('\r')
  const bare = () => (hasReturns ? lines.map(withoutReturn) : lines)
  const ended = form === 'whole' ? lines.map((line) => `${line}\n`) : bare()
  if (rest !== '') ended.push(rest)
  return ended
}
