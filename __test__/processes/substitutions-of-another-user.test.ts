/** A process with a terminal waits for its process substitutions, also where only root may look at their descriptors. */
import { expect, it } from 'vitest'
import { modes, withSandboxIn } from '../helpers/modes.js'

const options = process.geteuid?.() === 0 ? { user: { uid: 200_000, gid: 200_000 }, cwd: '/' } : {}

for (const mode of modes) {
  it(`a substitution that is a fork of the shell, and asleep, prints its output to the terminal, ${mode.name}`, () =>
    withSandboxIn(
      mode,
      async ({ sandbox }) => {
        // No program runs in it until `read` has waited, and the wait is shorter than the silence that ends it.
        const asleep = 'read -t 0.05 <>"$fifo"; rm "$fifo"; sed s/^/x/'
        const command = `fifo=$(TMPDIR=/tmp mktemp -u); mkfifo "$fifo"; seq 5 > >(${asleep})`
        for (let run = 0; run < 5; run++) {
          const started = await sandbox.startProcess(command, { pty: true })
          expect(await started.waitForExit()).toMatchObject({ exitCode: 0 })
          expect((await started.getLogs()).stdout).toBe('x1\r\nx2\r\nx3\r\nx4\r\nx5\r\n')
        }
      },
      { options },
    ))
}
