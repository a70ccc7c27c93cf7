/** examples/best-of-n, with the agents that it has. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Example, openExample } from '../helpers/example.js'

let example: Example

beforeAll(async () => {
  example = await openExample('best-of-n')
}, 60_000)

afterAll(() => example.remove())

describe('the best-of-n example', () => {
  it('scores each agent alone, and commits the work of the two best to a branch', async () => {
    const { exitCode, stdout, stderr } = await example.run('main.js')
    expect(stdout + stderr).toBe(`before: 2 of 8 tests pass
slugs: 6
initials: 4
lower case: 3
a mistake: 0
slugs and initials together: 8; changed files: 1
# Prints a title as a part of a URL.
slug() {
  printf '%s' "$1" | tr 'A-Z' 'a-z' | tr -cs 'a-z0-9' '-' | sed 's/-$//'
}

# Prints the first letters of a name.
initials() {
  printf '%s' "$1" | sed 's/\\([A-Z]\\)[a-z]* */\\1/g'
}
changed in the checkout: nothing
`)
    expect(exitCode).toBe(0)
  })
})
