/**
 * Source maps that map lines. Columns are most of a map, and a stack trace is read by its lines.
 */
import { decode, encode } from '@jridgewell/sourcemap-codec'

/** Keeps of each line the segments that begin another line of a source. */
export function mapLines(map) {
  const lines = decode(map.mappings).map((segments) => {
    let last
    return segments
      .filter((segment) => {
        const [, source, line] = segment
        if (source === undefined) return false
        const isNew = last === undefined || last.source !== source || last.line !== line
        last = { source, line }
        return isNew
      })
      .map(([column, source, line, sourceColumn]) => [column, source, line, sourceColumn])
  })
  return { ...map, names: [], mappings: encode(lines) }
}
