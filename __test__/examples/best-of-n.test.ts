/** examples/best-of-n, with the strategies that it has. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Example, openExample } from '../helpers/example.js'

let example: Example

beforeAll(async () => {
  example = await openExample('best-of-n')
}, 60_000)

afterAll(() => example.remove())

describe('the best-of-n example', () => {
  it('scores each strategy alone, and commits the best one', async () => {
    const { exitCode, stdout, stderr } = await example.run('main.js')
    expect(stdout + stderr).toBe(`before: 1 of 5 tests pass
lower case: 2
dashes: 3
single dashes: 5
a mistake: 0
the best is: single dashes; changed files: 1
# Prints a title as a part of a URL.
slug() {
  printf '%s' "$1" | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9' '-' | sed 's/-$//'
}
`)
    expect(exitCode).toBe(0)
  })
})
