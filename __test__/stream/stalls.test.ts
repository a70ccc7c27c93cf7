/** A loop over a stream that awaits a command of the same session. */
import { expect } from 'vitest'
import { itHolds } from '../contract/helper.js'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds } from '../helpers/until.js'

itHolds('a command in a loop over a stream of its session ends by its timeout', async ({ sandbox }) => {
  for await (const line of sandbox.execStream('yes').lines()) {
    expect(line).toBe('y')
    // Until the pipes and sockets are full, it is an ordinary command.
    await holds(async () => {
      const error = await rejectionOf(sandbox.exec('echo x', { timeout: 100 }))
      expect(error).toMatchObject({ code: 'COMMAND_TIMEOUT', result: { command: 'echo x', timedOut: true } })
      return (
        error.message.includes('the stream `yes`, which is not read, has run in its session since 20') ||
        undefined
      )
    })
    break
  }
  expect((await sandbox.exec('echo x', { timeout: 60_000 })).stdout).toBe('x\n')
})

const warnings: string[] = []
const logger = { debug() {}, info() {}, warn: (text: string) => void warnings.push(text), error() {} }

itInSandbox(
  'the logger is warned once when commands wait for a stream that is not read',
  async ({ sandbox }) => {
    const stream = sandbox.execStream('yes')
    const waiting = [sandbox.exec('echo x'), sandbox.exec('echo y')]
    await holds(() => warnings.some((text) => text.includes('not read')))
    expect(warnings).toEqual([
      expect.stringMatching(/commands wait for a stream whose output is not read.*yes/),
    ])
    await stream.kill()
    expect((await Promise.all(waiting)).map(({ stdout }) => stdout)).toEqual(['x\n', 'y\n'])
    expect(warnings).toHaveLength(1)
  },
  { options: { logger } },
)
