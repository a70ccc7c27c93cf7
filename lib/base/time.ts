/**
 * Times as ISO 8601, as `Date.toISOString` gives them: milliseconds, UTC.
 *
 * Every result has a time. Formatting the date anew for each command of the same second would cost more than building the
 * rest of the result.
 */

let lastSecond = Number.NaN
/** `2026-11-21T19:14:09.` */
let prefix = ''

/** `time` is in milliseconds since the epoch. Fractions of a millisecond are cut off. */
export function isoTime(time: number): string {
  const second = Math.floor(time / 1000)
  if (second !== lastSecond) {
    prefix = new Date(second * 1000).toISOString().slice(0, -4)
    lastSecond = second
  }
  return `${prefix}${String(Math.floor(time) - second * 1000).padStart(3, '0')}Z`
}
