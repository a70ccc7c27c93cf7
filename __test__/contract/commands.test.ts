/** Commands are the same here, over HTTP and in the session of a container. */
import path from 'node:path'
import { describe, expect } from 'vitest'
import { all, made } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'
import { itHoldsEverywhere, type StreamEvent } from './everywhere.js'
import { processIn, running } from './helper.js'

const textOf = (events: StreamEvent[], type: 'stdout' | 'stderr' = 'stdout') =>
  events.map((event) => (event.type === type ? event.data : '')).join('')

describe('a command', () => {
  itHoldsEverywhere('gives its output, its code and its time', async ({ commands }) => {
    const command = 'echo out; echo err >&2; (exit 5)'
    const begun = Date.now()
    const result = await commands.exec(command)
    expect(result).toMatchObject({ stdout: 'out', stderr: 'err', exitCode: 5, command })
    expect(result.duration).toBeGreaterThan(0)
    expect(Math.abs(Date.parse(result.timestamp) - begun)).toBeLessThan(60_000)
    expect(await commands.exec('true')).toMatchObject({ stdout: '', stderr: '', exitCode: 0 })
    expect((await commands.exec("sh -c 'kill -TERM $$'")).exitCode).toBe(143)
  })

  itHoldsEverywhere('keeps NUL, bytes that are no text and 3 MB of output', async ({ commands }) => {
    expect((await commands.exec("printf 'a\\0b\\xff\\r\\n\\n'")).stdout).toBe('a\0b\uFFFD\r\n')
    const { stdout } = await commands.exec("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end")
    expect(stdout === `${'x'.repeat(3_000_000)}\nend`).toBe(true)
  })

  itHoldsEverywhere('reads end of file immediately', async ({ commands }) => {
    expect((await commands.exec('cat; read -r x; echo "$? [$x]"')).stdout).toBe('1 []')
  })

  itHoldsEverywhere('is not delayed by background processes', async ({ commands, directory }) => {
    const result = await commands.exec('(until [ -e go ]; do sleep 0.01; done; touch after) & echo begun')
    expect(result.stdout).toBe('begun')
    await commands.exec('touch go')
    await made(directory, 'after')
  })

  itHoldsEverywhere(
    'is refused by bash when it is not a program, and the shell stays',
    async ({ commands }) => {
      await commands.exec('x=kept')
      for (const command of ['echo "never closed', '}; }; echo injected', 'fi', 'echo $('])
        expect([command, (await commands.exec(command)).exitCode]).toEqual([command, 2])
      expect((await commands.exec('echo $x')).stdout).toBe('kept')
    },
  )
})

describe('the state of the shell', () => {
  const set =
    'mkdir -p sub; cd sub; export KEY=1; word=two; list=("a b" c); f() { echo "$KEY $word $1"; }; set -u'
  const see = 'f 3; pwd; echo "${list[0]} $-"'

  itHoldsEverywhere('stays from command to command', async ({ commands, directory }) => {
    await commands.exec(set)
    const { stdout } = await commands.exec(see)
    expect(stdout).toMatch(new RegExp(`^1 two 3\n${directory}/sub\na b \\w*u\\w*$`))
  })

  itHoldsEverywhere('stays over every end of the shell', async ({ commands }) => {
    await commands.exec(set)
    const before = await commands.exec(see)
    for (const [end, code] of [
      ['exit 3', 3],
      ['die() { exit 7; }; die', 7],
      ['set -e; false', 1],
      ['kill -9 $$', 137],
      ['exec true', 0],
    ] as const) {
      expect((await commands.exec(end)).exitCode, end).toBe(code)
      await commands.exec('set +e')
      expect((await commands.exec(see)).stdout, end).toBe(before.stdout)
    }
  })

  itHoldsEverywhere('is not changed by cwd and env of one command', async ({ commands, directory }) => {
    await commands.exec('export A=before')
    const env = { A: `'"$(id)\n \\`, B: 'b' }
    const during = await commands.exec('pwd; printf %s "$A$B"', { cwd: '/usr', env })
    expect(during.stdout).toBe(`/usr\n${env.A}b`)
    expect((await commands.exec('pwd; echo "$A ${B-unset}"')).stdout).toBe(`${directory}\nbefore unset`)
    expect((await rejectionOf(commands.exec('touch ran', { env: { 'A-B': 'x' } }))).message).toContain('A-B')
    expect((await commands.exec('ls')).stdout).toBe('')
  })

  itHoldsEverywhere('is that of the commands in the order of their calls', async ({ commands }) => {
    const calls = [1, 2, 3, 4].map((n) => commands.exec(`n="$n"${n}; sleep 0.0$((5 - ${n})); echo $n`))
    expect((await Promise.all(calls)).map(({ stdout }) => stdout)).toEqual(['1', '12', '123', '1234'])
  })
})

describe('a timeout', () => {
  itHoldsEverywhere(
    'kills the command with its tree and keeps the state',
    async ({ commands, directory }) => {
      await commands.exec('x=kept')
      const run = commands.exec('sleep 61 & echo $! > child; wait; sleep 61', { timeout: 1000 })
      const failed = rejectionOf(run)
      await made(directory, 'child')
      expect(await failed).toMatchObject({ code: 'COMMAND_TIMEOUT' })
      expect(processIn(path.join(directory, 'child'))).toBeUndefined()
      expect((await commands.exec('echo $x')).stdout).toBe('kept')
    },
  )

  itHoldsEverywhere('ends a stream in an error, after its output', async ({ commands }) => {
    const events = await all(commands.execStream('echo begun; sleep 62', { timeout: 1000 }))
    expect(textOf(events)).toBe('begun\n')
    expect(events.at(-1)).toEqual({ type: 'error', timedOut: true })
    expect((await commands.exec('echo on')).stdout).toBe('on')
  })
})

describe('a stream', () => {
  itHoldsEverywhere('reports its start, its output and its end', async ({ commands }) => {
    const events = await all(
      commands.execStream("echo out; echo err >&2; printf 'a\\0b\\377\\303'; printf '\\251'; exit 3"),
    )
    expect(events[0]).toEqual({ type: 'start', pid: expect.any(Number) })
    expect([textOf(events), textOf(events, 'stderr')]).toEqual(['out\na\0b\ufffdé', 'err\n'])
    expect(events.at(-1)).toEqual({ type: 'complete', exitCode: 3 })
    expect((await commands.exec('echo on')).stdout).toBe('on')
  })

  itHoldsEverywhere('begins with the state of the session', async ({ commands, directory }) => {
    await commands.exec('mkdir sub; cd sub; word=two; f() { echo "$word $1"; }')
    const events = await all(commands.execStream('f 3; pwd; cat', { env: { A: 'b' } }))
    expect(textOf(events)).toBe(`two 3\n${directory}/sub\n`)
    const elsewhere = await all(commands.execStream('pwd; echo $A', { cwd: '/usr', env: { A: "'\n" } }))
    expect(textOf(elsewhere)).toBe("/usr\n'\n")
    expect((await commands.exec('pwd')).stdout).toBe(`${directory}/sub`)
  })

  itHoldsEverywhere('has the code of every end', async ({ commands }) => {
    for (const [command, exitCode] of [
      ['set -e; false; echo never', 1],
      ['exec true', 0],
      ['exec /no/such', 127],
      ["sh -c 'kill -TERM $$'", 143],
      ['kill -9 $BASHPID', 137],
      ['echo "never closed', 2],
      ['}; }; echo injected', 2],
      ['sleep 61 & exit 0', 0],
    ] as const) {
      const events = await all(commands.execStream(command))
      expect(events.at(-1), command).toEqual({ type: 'complete', exitCode })
      expect([command, textOf(events)]).toEqual([command, ''])
      expect((await commands.exec('set +e; echo on')).stdout).toBe('on')
    }
  })

  itHoldsEverywhere('loses nothing of 4 MB', async ({ commands }) => {
    const events = await all(commands.execStream('seq 600000'))
    const expected = Array.from({ length: 600_000 }, (_, index) => `${index + 1}\n`).join('')
    expect(textOf(events) === expected).toBe(true)
  })

  itHoldsEverywhere('is killed with its tree by kill', async ({ commands, directory }) => {
    const stream = commands.execStream('sleep 63 & echo $! > child; echo x; wait')
    const events: StreamEvent[] = []
    let child: string | undefined
    for await (const event of stream) {
      events.push(event)
      if (event.type !== 'stdout') continue
      child = processIn(path.join(directory, 'child'))
      expect(await stream.kill()).toBe(true)
      expect(running()).not.toContain(child)
    }
    expect(child).toBeDefined()
    expect(events.at(-1)).toEqual({ type: 'complete', exitCode: 143 })
    const ended = commands.execStream('true')
    await all(ended)
    expect(await ended.kill()).toBe(false)
  })

  itHoldsEverywhere('is killed with its tree when its reader stops', async ({ commands, directory }) => {
    let child: string | undefined
    for await (const event of commands.execStream('sleep 63 & echo $! > child; echo x; wait')) {
      if (event.type !== 'stdout') continue
      child = processIn(path.join(directory, 'child'))
      break
    }
    expect(child).toBeDefined()
    expect(running()).not.toContain(child)
    expect((await commands.exec('echo on')).stdout).toBe('on')
  })
})
