/** The end of a sandbox behind a program: whichever side ends, and however, nothing is left and every call has an error. */
import { connectProgram } from 'nacre/engine'
import { describe, expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import * as proc from '../helpers/proc.js'
import { server, serverOf, withProgram, withTag } from '../helpers/program.js'
import { all } from '../helpers/stream.js'
import { pty } from '../helpers/terminal.js'
import { rejectionOf } from '../helpers/thrown.js'

const rounds = process.env.NACRE_TEST_REST === undefined ? 2 : 20

/** Programs that end only by SIGKILL, and those that leave their session. */
const STUBBORN = 'setsid sleep 60 & trap "" HUP INT TERM; while :; do sleep 60; done'

/** A program between, which is not the parent of the server alone, and one that passes its bytes on. */
const between = ['sh', '-c', '"$@"; exit $?', 'sh']
const piped = ['sh', '-c', 'cat | "$@" | cat', 'sh']

/** A host whose sandbox runs commands, a process and a terminal. It prints the pid of its program. */
function hostOf(through: string[]) {
  const argv = [...through, ...server]
  return startHost(`
    const { connectProgram } = require('nacre/engine')
    const main = async () => {
      const sandbox = await connectProgram(${JSON.stringify(argv)})
      const start = { pty: { cols: 80, rows: 24 } }
      for (const options of [{}, start]) await sandbox.startProcess(${JSON.stringify(STUBBORN)}, options)
      sandbox.exec(${JSON.stringify(STUBBORN)}, { onOutput() {} }).catch((error) => print('lost: ' + error.code))
      print('runs')
    }
    main()
  `)
}

describe.each([
  ['directly', [] as string[]],
  ['behind a shell', between],
  ['behind pipes', piped],
])('%s, SIGKILL leaves nothing', (_name, through) => {
  it('of the program that connects', async () => {
    for (let round = 0; round < rounds; round++) {
      const host = hostOf(through)
      await host.printed('runs')
      host.child.kill('SIGKILL')
      await expectGone(host.tag)
    }
  })

  // The shell of a pipeline ends when something is written into it.
  if (through !== piped)
    it('of the server', async () => {
      for (let round = 0; round < rounds; round++) {
        const host = hostOf(through)
        await host.printed('runs')
        proc.kill(await serverOf(host.tag))
        await host.printed('lost: SANDBOX_LOST')
        // Nothing keeps it alive any more.
        expect(await host.ended()).toBe(0)
        await expectGone(host.tag)
      }
    })

  it('of the program between, or of the server where there is none', async () => {
    for (let round = 0; round < rounds; round++) {
      const host = hostOf(through)
      await host.printed('runs')
      const [program] = proc.children(host.pid).filter((pid) => proc.carries(host.tag, pid))
      proc.kill(program ?? 0)
      await host.printed('lost: SANDBOX_LOST')
      expect(await host.ended()).toBe(0)
      await expectGone(host.tag)
    }
  })
})

describe('when the server ends early', () => {
  it('every call rejects with SANDBOX_LOST, the end of the program and what it has lost', () =>
    withProgram(async ({ sandbox, tag }) => {
      const session = await sandbox.createSession({ id: 'mine' })
      const process = await sandbox.startProcess('sleep 60', { processId: 'one' })
      const pending = [
        sandbox.exec('sleep 60'),
        session.exec('sleep 60'),
        process.waitForExit(),
        all(process.output()),
        sandbox.execStream('sleep 60', { sessionId: (await sandbox.createSession()).id }).result,
        all(sandbox.files.watch('.')),
      ].map(rejectionOf)
      await sandbox.exec('true', { sessionId: (await sandbox.createSession()).id })
      proc.kill(await serverOf(tag))
      for (const error of await Promise.all(pending)) {
        expect(error).toMatchObject({
          code: 'SANDBOX_LOST',
          lost: { reason: 'disconnected', processes: ['one'] },
        })
        expect(error.message).toMatch(/^the sandbox is lost: \S+ .*serve --stdio.* was ended by SIGKILL$/)
      }
      expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({ code: 'SANDBOX_LOST' })
      await sandbox.destroy()
    }))

  it('the error has the last that it printed', () =>
    withProgram(
      async ({ sandbox, tag }) => {
        const pending = rejectionOf(sandbox.exec('sleep 60'))
        proc.kill(await serverOf(tag))
        const { message } = await pending
        expect(message).toContain('ended with exit code 5. It printed: ')
        expect(message.endsWith('the carrier\nis out')).toBe(true)
      },
      ['sh', '-c', '"$@"; printf "the carrier\\nis out\\n" >&2; exit 5', 'sh'],
    ))
})

describe('the end by the client', () => {
  it('close ends everything without asking', () =>
    withProgram(async ({ sandbox, tag }) => {
      await sandbox.startProcess(STUBBORN, { pty })
      const pending = rejectionOf(sandbox.exec('sleep 60'))
      await Promise.all([sandbox.close(), sandbox.close()])
      expect(await pending).toMatchObject({ code: 'SANDBOX_DESTROYED' })
      expect(proc.tagged(tag)).toEqual([])
      expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({ code: 'SANDBOX_DESTROYED' })
      await sandbox.destroy()
    }))

  it('destroy ends processes by their signals first', () =>
    withProgram(async ({ sandbox, tag, directory }) => {
      const process = await sandbox.startProcess(
        `trap 'echo asked >${directory}/asked; exit' TERM; echo on; sleep 60 & wait`,
      )
      await process.waitForLog('on')
      await sandbox.destroy()
      expect(proc.tagged(tag)).toEqual([])
      await using after = await connectProgram(server)
      expect(await after.files.read(`${directory}/asked`)).toBe('asked\n')
    }))

  it('kills a program that does not end', () =>
    withTag(async (tag) => {
      const argv = ['sh', '-c', 'trap "" TERM; "$@"; while :; do sleep 60; done', 'sh', ...server]
      const sandbox = await connectProgram(argv, { env: { NACRE_TEST_TAG: tag } })
      await sandbox.exec('true')
      await sandbox.close()
    }))

  it('leaves a program that forgets it to its own end', async () => {
    const host = startHost(`
      const { connectProgram } = require('nacre/engine')
      const main = async () => {
        const sandbox = await connectProgram(${JSON.stringify(server)})
        await sandbox.startProcess('sleep 60')
        print('started')
      }
      main()
    `)
    expect(await host.ended()).toBe(0)
    expect(host.output()).toContain('started')
    await expectGone(host.tag)
  })

  it('is not that of Ctrl-C in a terminal', async () => {
    const host = startHost(
      `
      const { connectProgram } = require('nacre/engine')
      const main = async () => {
        const sandbox = await connectProgram(${JSON.stringify(server)})
        const stays = setInterval(() => {}, 1000)
        process.on('SIGINT', async () => {
          print('interrupted: ' + (await sandbox.exec('echo lives')).stdout)
          clearInterval(stays)
        })
        print('runs')
      }
      main()
    `,
      ['setsid'],
    )
    await host.printed('runs')
    process.kill(-host.pid, 'SIGINT')
    await host.printed('interrupted: lives')
    expect(await host.ended()).toBe(0)
    await expectGone(host.tag)
  })
})
