/** Commands of a sandbox that are functions of this program. */
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { type HostCommand, type HostCommandCall, Sandbox } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { itHolds } from '../contract/helper.js'
import { inTime } from '../helpers/in-time.js'
import { type Expectations, type Workplace, withSandbox } from '../helpers/invariants.js'
import { isRest, modes, plain, withSandboxIn } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { rejectionOf, thrownBy } from '../helpers/thrown.js'
import { holds } from '../helpers/until.js'

const text = (bytes: Uint8Array) => Buffer.from(bytes).toString()

/** Prints what it is called with. */
const show: HostCommand = async ({ args, cwd, env, sessionId, stdout }) => {
  await stdout.write(`${JSON.stringify({ args, cwd, sessionId, value: env.VALUE })}\n`)
  return 0
}

/** Copies its input. */
const copy: HostCommand = async ({ stdin, stdout }) => {
  for await (const piece of stdin) await stdout.write(piece)
  return 0
}

/** Keeps its calls, each until the caller ends. */
function keeper() {
  const calls: HostCommandCall[] = []
  const keep: HostCommand = async (call) => {
    calls.push(call)
    await call.stdout.write('kept\n')
    await new Promise((resolve) => call.signal.addEventListener('abort', resolve))
    return 0
  }
  return { calls, keep }
}

const withCommands = (
  commands: Record<string, HostCommand>,
  test: (workplace: Workplace) => Promise<void>,
  { options, ...expectations }: Expectations = {},
) => withSandbox(test, { ...expectations, options: { commands, ...options } })

for (const mode of isRest ? [...modes, ...plain] : [...modes.slice(0, 1), ...plain.slice(0, 1)])
  describe(`a host command ${mode.name}`, () => {
    it('gets what a program gets, and returns what a program returns', () =>
      withSandboxIn(
        mode,
        async ({ sandbox, directory }) => {
          const { stdout } = await sandbox.exec(`cd / && VALUE='a=b' show 'x y' "" '*'`)
          expect(JSON.parse(stdout)).toEqual({
            args: ['x y', '', '*'],
            cwd: '/',
            sessionId: 'default',
            value: 'a=b',
          })
          const session = await sandbox.createSession({ id: 'other', cwd: directory })
          expect(JSON.parse((await session.exec('show')).stdout)).toMatchObject({
            cwd: directory,
            sessionId: 'other',
          })
          expect(await sandbox.exec('code 0; echo $?; code 255; echo $?; code 7')).toMatchObject({
            stdout: '0\n255\n',
            exitCode: 7,
          })
          expect((await sandbox.exec('code 1 || code 0 && echo yes')).stdout).toBe('yes\n')
        },
        { options: { commands: { show, code: async ({ args }) => Number(args[0]) } } },
      ))

    it('is called from pipes, substitutions, scripts, other programs, background processes and terminals', () =>
      withSandboxIn(
        mode,
        async ({ sandbox, directory }) => {
          const script = path.join(directory, 'script')
          writeFileSync(script, '#!/bin/sh\necho "script: $(echo $1 | copy)"\n')
          chmodSync(script, 0o755)
          const run = async (command: string) => (await sandbox.exec(command)).stdout
          expect(await run('echo a | copy | copy | tr a b')).toBe('b\n')
          expect(await run('x=$(copy <<< inner); echo "<$x>"')).toBe('<inner>\n')
          expect(await run('printf "%s\\n" 1 2 3 | xargs -n 1 -P 3 name | sort')).toBe(
            'name 1\nname 2\nname 3\n',
          )
          expect(await run('./script x; sh -c "name sh"; find . -name script -exec name {} ";"')).toBe(
            'script: x\nname sh\nname ./script\n',
          )
          // Without an environment, by its path.
          expect(await run('env -i "$(command -v name)" clean; (cd / && exec -a other name replaced)')).toBe(
            'name clean\nname replaced\n',
          )
          expect(await run('name background & wait; coproc name co; cat <&${COPROC[0]}; wait')).toBe(
            'name background\nname co\n',
          )
          const process = await sandbox.startProcess('name process')
          await process.waitForExit()
          expect((await process.getLogs()).stdout).toBe('name process\n')
          const terminal = await sandbox.startProcess('echo typed | copy; name terminal', { pty: true })
          await terminal.waitForExit()
          expect((await terminal.getLogs()).stdout).toBe('typed\r\nname terminal\r\n')
        },
        {
          options: {
            commands: {
              copy,
              name: async ({ args, stdout }) => {
                await stdout.write(`name ${args.join(' ')}\n`)
                return 0
              },
            },
          },
        },
      ))
  })

itHolds(
  'a host command is called by commands',
  async ({ sandbox }) => {
    expect((await sandbox.exec('show of a caller', { env: { VALUE: 'v' } })).stdout).toContain(
      '{"args":["of","a","caller"]',
    )
    expect((await sandbox.exec('copy | tr a b', { input: 'aaa' })).stdout).toBe('bbb')
    await sandbox.createSession({ id: 'own' })
    expect((await sandbox.exec('show', { sessionId: 'own' })).stdout).toContain('"sessionId":"own"')
  },
  { options: { commands: { show, copy } } },
)

describe('the streams of a host command', () => {
  it('carry any bytes, and any number of them', () =>
    withCommands({ copy }, async ({ sandbox }) => {
      const bytes = Buffer.alloc(5_000_000, 'any bytes \0\xff\n', 'latin1')
      const { stdout } = await sandbox.exec('copy | sha256sum', { input: bytes })
      expect(stdout).toContain(createHash('sha256').update(bytes).digest('hex'))
      const both = await sandbox.exec('copy', { input: bytes, encoding: 'buffer' })
      expect(Buffer.compare(both.stdout, bytes)).toBe(0)
    }))

  it('leave input that the function does not read to others', () =>
    withCommands(
      {
        none: async () => 0,
        one: async ({ stdin, stdout }) => {
          const { value } = await stdin.next()
          await stdout.write(`one: ${text(value ?? new Uint8Array())}`)
          return 0
        },
      },
      async ({ sandbox }) => {
        const loop = 'while read line; do none; echo "$line"; done'
        expect((await sandbox.exec(loop, { input: 'a\nb\nc\n' })).stdout).toBe('a\nb\nc\n')
        const typed = await sandbox.startProcess('one; cat', { input: 'pipe' })
        await typed.write('first\n')
        await typed.waitForLog('one: first')
        await typed.write('second\n')
        await typed.closeInput()
        await typed.waitForExit()
        expect((await typed.getLogs()).stdout).toBe('one: first\nsecond\n')
      },
    ))

  it('end for the function as they end for a program', () =>
    withCommands(
      {
        twice: async ({ stdin, stdout }) => {
          for await (const piece of stdin) {
            await stdout.write(piece)
            break
          }
          for await (const piece of stdin) await stdout.write(piece)
          const { done } = await stdin.next()
          await stdout.write(`${done}`)
          return 0
        },
      },
      async ({ sandbox }) => {
        expect((await sandbox.exec('(echo a; sleep 0.01; echo b) | twice')).stdout).toBe('a\nb\ntrue')
        expect((await sandbox.exec('twice </dev/null; twice <&-')).stdout).toBe('truetrue')
      },
    ))

  it('slow the function down to the speed of its reader', async () => {
    let written = 0
    const flood: HostCommand = async ({ stdout }) => {
      for (; written < 200; written++) await stdout.write(new Uint8Array(100_000))
      return 0
    }
    await withCommands({ flood }, async ({ sandbox, directory }) => {
      const go = path.join(directory, 'go')
      const run = sandbox.exec(`flood | { while ! test -e ${go}; do sleep 0.01; done; wc -c; }`)
      await holds(() => written > 0)
      let before = -1
      // As long as it takes until nothing more is taken.
      await holds(async () => {
        const isStill = before === written
        before = written
        await new Promise((resolve) => setTimeout(resolve, 100))
        return isStill && before === written
      })
      expect(written).toBeLessThan(50)
      writeFileSync(go, '')
      expect((await run).stdout).toBe('20000000\n')
    })
  })
})

describe('what goes wrong in a host command', () => {
  it('is exit code 1 and a message, for an exception and for what is no exit code', () => {
    const returns = (value: unknown) => (async () => value) as HostCommand
    const commands = {
      throws: () => {
        throw new Error('not today')
      },
      rejects: async () => Promise.reject('a text'),
      256: returns(256),
      negative: returns(-1),
      fraction: returns(0.5),
      word: returns('0'),
      nothing: returns(undefined),
      number: async ({ stdout }: HostCommandCall) => {
        await stdout.write(7 as never)
        return 0
      },
    }
    return withCommands(commands as Record<string, HostCommand>, async ({ sandbox }) => {
      const fails = async (name: string, message: string) =>
        expect(await sandbox.exec(name)).toMatchObject({
          exitCode: 1,
          stdout: '',
          stderr: `${name}: ${message}\n`,
        })
      const noCode = (value: string) => `the function must return an exit code, 0 to 255, not ${value}`
      await fails('throws', 'not today')
      await fails('rejects', 'a text')
      await fails('256', noCode('256'))
      await fails('negative', noCode('-1'))
      await fails('fraction', noCode('0.5'))
      await fails('word', noCode('0'))
      await fails('nothing', noCode('undefined'))
      await fails('number', 'write takes a string or a Uint8Array')
    })
  })

  it('aborts its signal when the caller is killed, in whatever way', async () => {
    const { calls, keep } = keeper()
    await withCommands({ keep }, async ({ sandbox }) => {
      const aborted = async (count: number) => {
        await holds(() => calls.length === count && calls[count - 1]?.signal.aborted)
        const call = calls[count - 1]
        expect(await rejectionOf(call?.stdout.write('x') ?? Promise.resolve())).toMatchObject({
          name: 'AbortError',
        })
        expect(await rejectionOf(call?.stdin.next() ?? Promise.resolve())).toMatchObject({
          name: 'AbortError',
        })
      }
      const end = (timeout: number) => rejectionOf(sandbox.exec('keep', { timeout }))
      await inTime(300, end, () => calls.length > 0)
      await aborted(1)
      await sandbox.exec('keep > out & while ! test -s out; do sleep 0.01; done; kill -KILL $!; wait')
      await aborted(2)
      const process = await sandbox.startProcess('keep')
      await process.waitForLog('kept')
      await process.kill('SIGKILL')
      await aborted(3)
      await sandbox.createSession({ id: 'other' })
      const run = rejectionOf(sandbox.exec('keep', { sessionId: 'other' }))
      await holds(() => calls.length === 4)
      await sandbox.deleteSession('other')
      await run
      await aborted(4)
    })
  })

  it('ends the caller like other programs when nothing reads its output', async () => {
    let isAborted = false
    const yes: HostCommand = async ({ stdout, signal }) => {
      signal.addEventListener('abort', () => {
        isAborted = true
      })
      for (;;) await stdout.write('y\n')
    }
    await withCommands({ yes }, async ({ sandbox }) => {
      const { stdout } = await sandbox.exec('yes | head -n 2; echo ${PIPESTATUS[0]}')
      expect(stdout).toBe('y\ny\n141\n')
      await holds(() => isAborted)
    })
  })

  it('is "command not found" after destroy, and in durable jobs', async () => {
    const { calls, keep } = keeper()
    await withCommands(
      { keep },
      async ({ sandbox, directory, stateDir }) => {
        const jobsRoot = path.join(stateDir, '..', 'jobs')
        const withJobs = new Sandbox({ cwd: directory, stateDir, jobsRoot, commands: { keep } })
        const job = await withJobs.jobs.start({ command: 'keep' })
        expect(await withJobs.jobs.wait(job)).toMatchObject({ exitCode: 127 })
        expect((await withJobs.jobs.read(job)).raw).toContain('keep: command not found')
        await withJobs.jobs.remove(job)
        await withJobs.destroy()
        const program = (await sandbox.exec('command -v keep')).stdout.trim()
        const process = await sandbox.startProcess('keep')
        await process.waitForLog('kept')
        await sandbox.destroy()
        await holds(() => calls[0]?.signal.aborted)
        expect(existsSync(program)).toBe(false)
      },
      { destroys: true },
    )
  })

  it('is refused for programs of the machine, also with the mark of a session', async () => {
    let count = 0
    const count1: HostCommand = async () => {
      count++
      return 0
    }
    await withCommands({ count: count1 }, async ({ sandbox }) => {
      const { stdout } = await sandbox.exec('command -v count; ulimit -S -x')
      const [program = '', mark = ''] = stdout.trim().split('\n')
      const outside = (script: string) => spawnSync('bash', ['-c', script], { encoding: 'utf8' })
      for (const script of [program, `ulimit -S -x ${mark}; ${program}`]) {
        const { status, stderr } = outside(script)
        expect({ status, stderr }).toMatchObject({
          status: 127,
          stderr: expect.stringMatching(/^count: command not found: the program that has it has ended/),
        })
      }
      expect(count).toBe(0)
      expect((await sandbox.exec('count')).exitCode).toBe(0)
      expect(count).toBe(1)
    })
  })

  it('is nothing for other calls when a caller sends what it must not', async () => {
    const called: string[] = []
    const ask: HostCommand = async ({ args, stdin }) => {
      called.push(args.join(' '))
      // A caller that was not asked for input sends some.
      if (args[0] === 'wait') await new Promise((resolve) => setTimeout(resolve, 20))
      for await (const _ of stdin);
      return 0
    }
    await withCommands({ ask }, async ({ sandbox, directory }) => {
      const perl = path.join(directory, 'caller.pl')
      writeFileSync(
        perl,
        String.raw`use Socket; my ($name, $times, @parts) = @ARGV;
        for (1..$times) {
          socket(my $host, AF_UNIX, SOCK_STREAM, 0) or die; connect($host, pack_sockaddr_un("\0$name")) or die "$!";
          for (@parts) { my $part = $_; $part =~ s/\\x(..)/chr(hex($1))/ge; syswrite $host, $part; }
          if ($times == 1) { while (sysread($host, my $bytes, 100)) {} }
          print "closed\n";
        }`,
      )
      // One caller waits until it is refused, several end at once.
      const send = async (times: number, ...parts: string[]) => {
        const words = parts.map((part) => `'${part}'`).join(' ')
        const address = `nacre-command-$(printf %016x "$(ulimit -S -x)")`
        const { stdout, stderr } = await sandbox.exec(`perl caller.pl ${address} ${times} ${words}`, {
          timeout: 30_000,
        })
        expect({ stdout, stderr }).toEqual({ stdout: 'closed\n'.repeat(times), stderr: '' })
      }
      const frame = (kind: string, content: string) =>
        `${kind}\\x${content.length.toString(16).padStart(2, '0')}\\x00\\x00\\x00${content.replaceAll('\0', '\\x00')}`
      const call = (...args: string[]) => frame('c', ['ask', '/', args.length, ...args, 'A=b', ''].join('\0'))
      // Nothing at all, and an end in the middle of a frame.
      await send(200)
      await send(2, 'x')
      await send(2, call('ended').slice(0, -4))
      await send(1, 'c\\xff\\xff\\xff\\xff')
      await send(1, 'garbage of some length')
      await send(1, frame('c', 'ask'))
      await send(1, frame('c', ['ask', '/', '1000000000000', 'x', ''].join('\0')))
      await send(1, frame('c', ['cd', '/', '0', ''].join('\0')))
      await send(1, frame('i', 'input'))
      expect(called).toEqual([])
      // Two frames at once, and input before it was asked for.
      await send(1, call('twice') + call('twice'))
      // In one write, or the function could have asked for input before the second.
      await send(1, call('wait') + frame('i', 'early'))
      await send(1, call('much'), 'i\\xff\\xff\\xff\\x7f')
      expect(called).not.toContain('twice')
      await holds(
        async () =>
          (await sandbox.exec('for i in {1..128}; do ask & done </dev/null 2>&1; wait')).stdout === '',
      )
      expect((await sandbox.exec('ask "$(printf "%0100000d" 1)" </dev/null')).exitCode).toBe(0)
      expect(called.at(-1)).toHaveLength(100_000)
    })
  })

  it('is called although another session is silent, which is disconnected', async () => {
    const yes: HostCommand = async () => 0
    await withCommands({ yes }, async ({ sandbox, directory }) => {
      writeFileSync(
        path.join(directory, 'silent.pl'),
        String.raw`use Socket; $| = 1; my @all;
        for (1..128) {
          socket(my $host, AF_UNIX, SOCK_STREAM, 0) or die; connect($host, pack_sockaddr_un("\0$ARGV[0]")) or die "$!";
          syswrite $host, "c" if @all % 2; push @all, $host;
        }
        print "silent\n"; for (@all) { while (sysread($_, my $bytes, 100)) {} } print "closed\n";`,
      )
      await sandbox.createSession({ id: 'other' })
      const silent = await sandbox.startProcess(
        'exec perl silent.pl nacre-command-$(printf %016x "$(ulimit -S -x)")',
      )
      await silent.waitForLog('silent', 30_000)
      await holds(async () => (await sandbox.exec('yes')).exitCode === 127)
      expect((await sandbox.exec('yes', { sessionId: 'other' })).exitCode).toBe(0)
      await silent.waitForLog('closed', 60_000)
      await holds(async () => (await sandbox.exec('yes')).exitCode === 0)
    })
  }, 90_000)

  it('keeps no more than 128 calls at once, and says so to the others', async () => {
    const { calls, keep } = keeper()
    await withCommands({ keep }, async ({ sandbox }) => {
      const process = await sandbox.startProcess('for i in {1..140}; do keep & done; wait')
      await holds(() => calls.length === 128)
      await holds(async () => (await process.getLogs()).stderr.split('runs too many').length === 13)
      await process.kill('SIGKILL')
      await holds(() => calls.every(({ signal }) => signal.aborted))
      expect(calls.length).toBe(128)
      const one = 'keep > out & while jobs %% && ! test -s out; do sleep 0.01; done; kill $!; cat out'
      await holds(async () => (await sandbox.exec(one)).stdout.endsWith('kept\n'))
    })
  })
})

describe('the option commands', () => {
  it('refuses names that no shell would call, and what is no function', () => {
    const refuse = (commands: unknown) => {
      const error = thrownBy(() => new Sandbox({ commands } as never))
      expect(error).toMatchObject({ name: 'OptionError', code: 'INVALID_OPTION' })
      return (error as Error).message
    }
    for (const name of ['', 'a/b', 'a b', 'é', '[', 'x'.repeat(65)])
      expect(refuse({ [name]: show })).toMatch(/^commands has the name /)
    for (const name of ['cd', 'if', '.', '..', 'nacre', 'nacre-command'])
      expect(refuse({ [name]: show })).toBe(
        `commands has the name "${name}", which is taken by bash or nacre`,
      )
    expect(refuse({ ask: 'ask' })).toBe('commands.ask must be a function, not "ask"')
    expect(refuse([show])).toMatch(/^commands must be an object of functions by name/)
    const many = Object.fromEntries(Array.from({ length: 257 }, (_, index) => [`c${index}`, show]))
    expect(refuse(many)).toBe('commands has 257 commands, and at most 256 work')
  })

  it('refuses all names that bash takes', () => {
    const { stdout } = spawnSync('bash', ['-c', 'compgen -kb'], { encoding: 'utf8' })
    for (const name of stdout.trim().split('\n'))
      expect(() => new Sandbox({ commands: { [name]: show } }), name).toThrow(/^commands has the name/)
  })

  it('is none of a client', () => {
    const open = () => new SandboxClient({ url: 'http://127.0.0.1:1', commands: { show } } as never)
    expect(thrownBy(open)).toMatchObject({
      name: 'OptionError',
      message: expect.stringContaining('no option "commands"'),
    })
  })

  it('comes first in PATH, and leaves it otherwise as it is', () =>
    withCommands({ ls: show, tool: show }, async ({ sandbox, directory }) => {
      expect((await sandbox.exec('ls own')).stdout).toContain('"args":["own"]')
      expect((await sandbox.exec('echo "${PATH#*:}"', { env: { VALUE: 'x' } })).stdout.trim()).toBe(
        process.env.PATH,
      )
      const session = await sandbox.createSession({ env: { PATH: `${directory}:/usr/bin:/bin` } })
      expect((await session.exec('tool; echo "${PATH#*:}"')).stdout).toContain(
        `\n${directory}:/usr/bin:/bin\n`,
      )
    }))

  it('shares one directory among sessions, and the last one removes it', () =>
    withCommands({ show }, async ({ sandbox, stateDir }) => {
      const directories = () => readdirSync(stateDir).filter((name) => name.startsWith('nacre-commands-'))
      const one = await sandbox.createSession()
      const two = await sandbox.createSession()
      expect(directories()).toHaveLength(1)
      await sandbox.deleteSession(one.id)
      expect((await two.exec('show')).exitCode).toBe(0)
      await sandbox.deleteSession(two.id)
      expect(directories()).toEqual([])
      await sandbox.exec('show')
    }))

  it('works in forks and after a rollback', () =>
    withCommands(
      { show },
      async ({ sandbox }) => {
        const point = await sandbox.checkpoint()
        await sandbox.exec('cd /; PATH=/usr/bin:/bin')
        expect((await sandbox.exec('show')).exitCode).toBe(127)
        await sandbox.rollback(point)
        expect((await sandbox.exec('show')).exitCode).toBe(0)
        const fork = await sandbox.fork()
        await sandbox.deleteSession('default')
        expect(JSON.parse((await fork.exec('show fork')).stdout)).toMatchObject({ args: ['fork'] })
        await fork.destroy()
      },
      { options: { workspace: 'copy-on-write' } },
    ))

  it('works after the shell, and after its supervisor, was replaced', () =>
    withCommands({ show }, async ({ sandbox }) => {
      await sandbox.exec('kill -9 $$')
      expect((await sandbox.exec('show')).exitCode).toBe(0)
      const { stdout } = await sandbox.exec('echo $PPID')
      proc.kill(Number(stdout))
      await rejectionOf(sandbox.exec('true')).catch(() => {})
      expect((await sandbox.exec('show')).exitCode).toBe(0)
    }))

  it('leaves no directory when the last supervisor is killed before destroy', () =>
    withCommands(
      { show },
      async ({ sandbox, stateDir }) => {
        const { stdout } = await sandbox.exec('echo $PPID')
        proc.kill(Number(stdout))
        await sandbox.destroy()
        expect(readdirSync(stateDir)).toEqual([])
      },
      { destroys: true },
    ))
})
