/** examples/container-engine: the answers of a container before and after the swap of its engine. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Example, openExample } from '../helpers/example.js'

let example: Example

beforeAll(async () => {
  example = await openExample('container-engine')
}, 60_000)

afterAll(() => example.remove())

describe('the container-engine example', () => {
  it('answers as before where the old engine works, and better where it fails', async () => {
    const { exitCode, stdout } = await example.run('main.js')
    expect(stdout).toBe(`state stays
  FIFO:  200 exit code 0, printed: you in /usr
  nacre: 200 exit code 0, printed: you in /usr
a failed command
  FIFO:  200 exit code 2
  nacre: 200 exit code 2
exit ends the session
  FIFO:  410 SESSION_TERMINATED: session exit-ends-the-session: the shell exited with code 7
  nacre: 410 SESSION_TERMINATED: session exit-ends-the-session: the shell exited with code 7
a command after a timeout
  FIFO:  500 COMMAND_FAILED: Command timeout after 1000ms
  nacre: 200 exit code 0, printed: free again
an unclosed quote
  FIFO:  500 COMMAND_FAILED: Command timeout after 1000ms
  nacre: 200 exit code 2
unbalanced braces
  FIFO:  410 SESSION_TERMINATED: session unbalanced-braces: the shell exited with code 2
  nacre: 200 exit code 2
`)
    expect(exitCode).toBe(0)
  })
})
