/**
 * Ids of jobs: unguessable, and sorted in the order of the starts.
 *
 * The time in ms, a counter within that ms, and 80 random bits, in Crockford's base 32, whose letters sort by value. If the
 * clock is set back, ids of the same process still sort in order.
 */
import { crypto } from '../base/builtin.js'

const LETTERS = '0123456789abcdefghjkmnpqrstvwxyz'
/** 50 bits, enough until the year 37648. */
const TIME_LETTERS = 10
const COUNT_LETTERS = 3
const RANDOM_LETTERS = 16

let lastTime = 0
let count = 0

export function freshJobId(now = Date.now()): string {
  if (now > lastTime) {
    lastTime = now
    count = 0
  } else if (++count === LETTERS.length ** COUNT_LETTERS) {
    lastTime++
    count = 0
  }
  const random = Array.from(
    crypto().randomBytes(RANDOM_LETTERS),
    (byte) => LETTERS[byte % LETTERS.length],
  ).join('')
  return inLetters(lastTime, TIME_LETTERS) + inLetters(count, COUNT_LETTERS) + random
}

function inLetters(value: number, length: number): string {
  let text = ''
  for (let rest = value; text.length < length; rest = Math.floor(rest / LETTERS.length))
    text = LETTERS[rest % LETTERS.length] + text
  return text
}
