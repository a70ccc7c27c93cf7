/** What a command does to its shell, its names and its limits. */
import { existsSync, rmSync } from 'node:fs'
import path from 'node:path'
import { expect } from 'vitest'
import { itInEveryMode } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { holds } from '../helpers/until.js'

itInEveryMode('a restricted shell keeps its state over exit', async ({ sandbox }) => {
  await sandbox.exec('x=1; f() { echo f $x; }; a=(1 2 3)')
  await sandbox.exec('set -r')
  expect((await sandbox.exec('exit 3')).exitCode).toBe(3)
  expect((await sandbox.exec('f; echo ${#a[@]}')).stdout).toBe('f 1\n3\n')
  expect((await sandbox.exec('cd /')).exitCode).toBe(1)
})

itInEveryMode('names of an engine are ordinary names', async ({ sandbox }) => {
  await sandbox.exec('readonly __nacre_status=7 nacre=1; nacre_loop() { echo mine; }; declare -n NACRE=nacre')
  expect((await sandbox.exec('exit 3')).exitCode).toBe(3)
  expect((await sandbox.exec('echo $__nacre_status $NACRE; nacre_loop; nacre 3 4')).stdout).toBe(
    '7 1\nmine\n',
  )
  expect((await sandbox.exec('(exit 5)')).exitCode).toBe(5)
})

itInEveryMode('fifty thousand variables for one command', async ({ sandbox }) => {
  const env = Object.fromEntries(Array.from({ length: 50_000 }, (_, index) => [`V${index}`, `${index}`]))
  expect((await sandbox.exec('echo $V0 $V49999', { env })).stdout).toBe('0 49999\n')
  expect((await sandbox.exec('echo "[$V0$V49999]"')).stdout).toBe('[]\n')
})

itInEveryMode('a command that may write no file', async ({ sandbox }) => {
  await sandbox.exec('ulimit -f 0; x=1')
  expect((await sandbox.exec('echo output; exit 4')).exitCode).toBe(4)
  expect((await sandbox.exec('echo $x')).stdout).toBe('1\n')
})

itInEveryMode(
  'terminals of processes that are killed immediately leave no descriptor',
  async ({ sandbox }) => {
    // The invariants count them.
    for (let round = 0; round < 20; round++) {
      const process = await sandbox.startProcess('sleep 60', { pty: { cols: 80, rows: 24 } })
      expect(await process.kill(round % 2 === 0 ? 'SIGKILL' : 'SIGTERM')).toBe(true)
    }
    await sandbox.cleanupCompletedProcesses()
  },
)

itInEveryMode(
  'a trap between commands that closes every descriptor loses no command',
  async ({ sandbox, directory }) => {
    const begun = path.join(directory, 'begun')
    for (const command of ['echo hi', 'export Y=1; echo hi']) {
      const trap = `: >${begun}; while [ -e ${begun} ]; do :; done; for fd in /proc/$$/fd/*; do eval "exec \${fd##*/}>&-"; done`
      // Behind a standby that has x.
      await sandbox.exec('x=1')
      const pid = Number((await sandbox.exec(`trap '${trap}' USR1; echo $$`)).stdout)
      await holds(() => proc.isReceiving(pid))
      process.kill(pid, 'SIGUSR1')
      await holds(() => existsSync(begun))
      const running = sandbox.exec(command, { timeout: 10_000 })
      const started = sandbox.startProcess('echo $x')
      rmSync(begun)
      expect((await running).stdout).toBe('hi\n')
      const child = await started
      await child.waitForExit({ timeout: 10_000 })
      expect((await child.getLogs()).stdout).toBe('1\n')
      expect((await sandbox.exec('echo $x')).stdout).toBe('1\n')
    }
  },
)

itInEveryMode('a command that finds the socket of its shell cannot forge a report', async ({ sandbox }) => {
  // The header of DONE, with a success and small numbers for the command.
  const forge = `fd=$(ls -l /proc/$$/fd | grep -o '[0-9]* -> socket' | cut -d' ' -f1)
    for id in 0 1 2 3 4 5 6 7 8 9; do
      printf '\\x02\\0\\0\\0\\0\\0\\0\\0\\x0'$id'\\0\\0\\0\\0\\0\\0\\0%032d' 0 | tr 0 '\\0' >&$fd
    done 2>/dev/null; printf junk >&$fd; sleep 0.1; echo out; exit 7`
  for (let round = 0; round < 3; round++) {
    expect(await sandbox.exec(forge)).toMatchObject({ exitCode: 7, stdout: 'out\n' })
    expect(await sandbox.exec('echo next')).toMatchObject({ exitCode: 0, stdout: 'next\n' })
  }
})

itInEveryMode(
  'a shell that replaces itself as soon as it has taken over has an exit code',
  async ({ sandbox }) => {
    // The standby can run the command and end before the supervisor reads that it has been promoted.
    const replaceAgainAndAgain = async (sessionId: string) => {
      for (let round = 0; round < 80; round++) {
        const { exitCode } = await sandbox.exec('exec /bin/sh -c "exit 5"', { sessionId })
        expect({ round, exitCode }).toEqual({ round, exitCode: 5 })
      }
    }
    const ids = ['a', 'b', 'c']
    await Promise.all(ids.map((id) => sandbox.createSession({ id })))
    await Promise.all(ids.map(replaceAgainAndAgain))
  },
)
