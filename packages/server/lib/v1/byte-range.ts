/** The header `Range`, for one range of bytes. */
/** The first byte and the last one, which is included; or the number of bytes at the end. */
export type ByteRange = { start: number; end: number | undefined } | { suffix: number }

/** Undefined without a range, or when it is to be ignored: another unit, several ranges, a malformed range. */
export function parseRange(header: string | undefined): ByteRange | undefined {
  const [, first = '', last = ''] = /^bytes=\s*(\d{0,15})-(\d{0,15})\s*$/i.exec(header ?? '') ?? []
  if (first === '') return last === '' ? undefined : { suffix: Number(last) }
  const [start, end] = [Number(first), last === '' ? undefined : Number(last)]
  return end !== undefined && end < start ? undefined : { start, end }
}
