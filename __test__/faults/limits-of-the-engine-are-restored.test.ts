/** Commands that take limits away from the processes that serve them. */
import { expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'

const limits = ['--nofile=3:3', '--as=1:1', '--fsize=0:0', '--cpu=1:1', '--data=1:1']

/** The error of a call whose supervisor could not get its limits back, and was replaced. */
const replaced = (error: Error) => {
  expect(error.message).toMatch(/supervisor|files helper/)
}

for (const limit of limits) {
  it(`after prlimit ${limit} of the supervisor, each call settles and the session keeps its state`, () =>
    withSandbox(async ({ sandbox }) => {
      await sandbox.exec('x=kept')
      const harm = () => sandbox.exec(`prlimit --pid $PPID ${limit}`).catch(replaced)
      await harm()
      await sandbox.startProcess('exit 7').then((process) => process.waitForExit(), replaced)
      await harm()
      await sandbox.files.list('/').then(() => {}, replaced)
      await harm()
      await sandbox.exec('sleep 60', { timeout: 50 }).catch((error) => {
        if (error.code !== 'COMMAND_TIMEOUT') replaced(error)
      })
      expect((await sandbox.exec('echo $(echo $x)')).stdout).toBe('kept\n')
      const { exitCode } = await (await sandbox.startProcess('test $x = kept; exit 7')).waitForExit()
      expect(exitCode).toBe(7)
    }))
}

it('a command that leaves the shell hardly any descriptors does not harm the next one', () =>
  withSandbox(async ({ sandbox }) => {
    for (const limit of [0, 1, 2, 4]) {
      await sandbox.exec(`ulimit -Sn ${limit}`)
      const { stdout, exitCode } = await sandbox.exec('echo out; echo err >&2; ulimit -Sn')
      expect([stdout, exitCode]).toEqual([`out\n${limit}\n`, 0])
    }
    await sandbox.exec('ulimit -Sn 64')
    expect((await sandbox.exec('ls / | head -c 0; echo $(echo ok)')).stdout).toBe('ok\n')
  }))
