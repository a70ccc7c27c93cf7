/** Numbers and tables as Markdown. */

/** A number with about three digits; whole numbers as they are. */
export function digits(value) {
  if (value === undefined || Number.isNaN(value)) return '-'
  if (Number.isInteger(value) || value >= 100) return value.toFixed(0)
  return value >= 10 ? value.toFixed(1) : value.toFixed(2)
}

/** Bytes as megabytes. */
export function megabytes(bytes) {
  return (bytes / 1e6).toFixed(1)
}

export function table(head, lines) {
  const line = (cells) => `| ${cells.join(' | ')} |`
  return [line(head), line(head.map((_, index) => (index === 0 ? '---' : '---:'))), ...lines.map(line)].join(
    '\n',
  )
}
