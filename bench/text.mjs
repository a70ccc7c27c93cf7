/** Formats numbers and tables as Markdown. */

/** A number with about three digits; whole numbers stay unchanged. */
export function digits(value) {
  if (value === undefined || Number.isNaN(value)) return '-'
  if (Number.isInteger(value) || value >= 100) return value.toFixed(0)
  return value >= 10 ? value.toFixed(1) : value.toFixed(2)
}

/** Bytes as megabytes. */
export function megabytes(bytes) {
  return (bytes / 1e6).toFixed(1)
}

/** A table whose columns are aligned in the source too; all but the first are numbers. */
export function table(head, lines) {
  const widths = head.map((_, index) => Math.max(3, ...[head, ...lines].map((cells) => cells[index].length)))
  const pad = (cell, index) => (index === 0 ? cell.padEnd(widths[index]) : cell.padStart(widths[index]))
  const line = (cells) => `| ${cells.map(pad).join(' | ')} |`
  const rule = widths.map((width, index) => (index === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`))
  return [line(head), line(rule), ...lines.map(line)].join('\n')
}
