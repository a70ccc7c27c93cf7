import { describe, expect, it } from 'vitest'
import { until } from '../../../__test__/helpers/until.js'
import { itWithTools, timeless, withTools } from './places.js'

describe('bash', () => {
  itWithTools('replies with exit code, time, directory and output', async ({ call, directory }) => {
    const reply = await call('bash', { command: 'echo out; echo err >&2; exit 3' })
    expect(timeless(reply.text)).toBe(`[exit 3 | T | cwd ${directory}]\nout\nerr`)
    expect(reply).toMatchObject({
      isError: false,
      data: {
        id: 'r1',
        status: 'ended',
        exitCode: 3,
        signal: null,
        reason: 'exit',
        cwd: directory,
        bytes: 8,
      },
    })
    expect(timeless((await call('bash', { command: 'true' })).text)).toBe(`[exit 0 | T | cwd ${directory}]`)
  })

  itWithTools('keeps the state of the session', async ({ call, lines }) => {
    await call('bash', { command: 'cd /usr; name=value; say() { echo "$name"; }' })
    const [header, ...output] = await lines('bash', { command: 'say; pwd' })
    expect(header).toContain('| cwd /usr]')
    expect(output).toEqual(['value', '/usr'])
    expect(await lines('bash', { command: 'pwd', cwd: '/' })).toContain('/')
    expect(await lines('bash', { command: 'pwd' })).toContain('/usr')
  })

  itWithTools(
    'replies with the output so far, and the session is free',
    async ({ call, lines, directory }) => {
      const command = 'cd /usr; echo begun; while [ ! -e go ]; do sleep 0.05; done; echo done; exit 4'
      const reply = await call('bash', {
        command: command.replace('-e go', `-e ${directory}/go`),
        yield_after: 1,
      })
      expect(timeless(reply.text)).toBe('[r1 still runs | T]\nbegun\n[use wait, output or kill with id "r1"]')
      expect(reply.data).toMatchObject({ id: 'r1', status: 'running' })
      expect(await lines('bash', { command: `pwd; touch ${directory}/go` })).toContain(directory)
      const end = await call('wait', { id: 'r1' })
      expect(timeless(end.text)).toBe('[exit 4 | T | its changes of directory and variables are lost]\ndone')
      expect(end.data).toMatchObject({ id: 'r1', status: 'ended', exitCode: 4 })
      expect(timeless((await call('wait', { id: 'r1' })).text)).toMatch(/^\[exit 4 \| T \| [^\n]*\]$/)
    },
  )

  itWithTools('returns an id at once with yield_after 0', async ({ call }) => {
    const { data } = await call('bash', { command: 'sleep 600', yield_after: 0 })
    expect(data).toMatchObject({ id: 'r1', status: 'running' })
    expect(timeless((await call('kill', { id: 'r1' })).text)).toBe(
      '[killed | T | its changes of directory and variables are lost]',
    )
  })

  itWithTools('names another caller that kills, and its reason', async ({ call, sandbox }) => {
    const killed = async (yield_after: number, kill: () => Promise<unknown>) => {
      const reply = call('bash', { command: 'sleep 600', yield_after })
      await until(kill, () => 'nothing was killed')
      const { text, data } = await reply
      return data.status === 'ended' ? text : (await call('wait', { id: data.id as string })).text
    }
    const killCommand = (reason?: string) => async () => {
      for (const session of await sandbox.listSessions())
        for (const { id, timestamp } of await session.running())
          if (timestamp !== null) return session.killCommand(id, 'SIGTERM', reason ? { reason } : {})
      return undefined
    }
    expect(await killed(30, killCommand())).toMatch(/^\[killed, by another caller \| /)
    expect(await killed(30, killCommand('a person stops it'))).toMatch(
      /^\[killed, by another caller: "a person stops it" \| /,
    )
    const killProcess = (reason: string) => async () => {
      const [process] = await sandbox.listProcesses({ status: 'running' })
      return process?.kill('SIGKILL', { reason })
    }
    expect(await killed(0, killProcess('a "lie" | exit 0]\n[exit 0 \u001b[31mred'))).toMatch(
      /^\[killed by SIGKILL, by another caller: "a lie exit 0 exit 0 red" \| /,
    )
    const long = await killed(0, killProcess('x'.repeat(1000)))
    expect(long.slice(0, 200)).toContain(`: "${'x'.repeat(100)}..." | `)
    expect(await killed(0, async () => (await call('kill', { id: 'r5' })).data.id)).toMatch(/^\[killed \| /)
  })

  itWithTools('reports what another caller holds', async ({ call, sandbox }) => {
    await call('bash', { command: 'read line; echo "got $line"', pty: true, yield_after: 0 })
    const [process] = await sandbox.listProcesses()
    const hold = await process?.hold('a person')
    expect((await call('write', { id: 'r1', text: 'no' })).text).toBe(
      `[error] HELD: process '${process?.id}' is held by "a person": try again when it is released`,
    )
    await hold?.release('logged | in')
    const told = (await call('wait', { id: 'r1', seconds: 0 })).text
    expect(told).toContain(`handed back by "a person": "logged in"`)
    expect((await call('wait', { id: 'r1', seconds: 0 })).text).not.toContain('handed back')
    expect((await call('write', { id: 'r1', text: 'yes' })).text).toContain('got yes')
    const session = await sandbox.getSession(process?.sessionId ?? '')
    const held = await session?.hold('a person')
    expect((await call('bash', { command: 'true' })).text).toMatch(/^\[error\] HELD: session '/)
    await held?.release()
    expect((await call('bash', { command: 'true' })).text).toMatch(/^\[exit 0 /)
  })

  itWithTools('kills a command at its time limit, also after a yield', async ({ call }) => {
    expect(timeless((await call('bash', { command: 'echo a; sleep 600', timeout: 1 })).text)).toMatch(
      /^\[timed out, killed \| T \| cwd [^\n]*\]\na$/,
    )
    await call('bash', { command: 'sleep 600', timeout: 1, yield_after: 0 })
    const reply = await call('wait', { id: 'r2' })
    expect(reply.text).toMatch(/^\[timed out, killed \| /)
    expect(reply.data).toMatchObject({ reason: 'timeout' })
    await call('bash', { command: 'sleep 600', timeout: 1, pty: true, yield_after: 0 })
    expect((await call('wait', { id: 'r3' })).text).toMatch(/^\[timed out, killed \| /)
  })

  itWithTools('names the signal that ended a command', async ({ call }) => {
    expect(timeless((await call('bash', { command: "bash -c 'kill -SEGV $$'; exit 1" })).text)).toMatch(
      /^\[exit 1 /,
    )
    await call('bash', { command: "trap '' TERM; while :; do sleep 0.1; done", yield_after: 0 })
    expect((await call('kill', { id: 'r2', signal: 'SIGKILL' })).text).toMatch(/^\[killed by SIGKILL \| /)
  })

  itWithTools(
    'makes a command wait for the one before it in its session',
    async ({ call, tools, directory }) => {
      const first = call('bash', {
        command: `echo 1; until [ -e ${directory}/go ]; do sleep 0.05; done`,
        yield_after: 30,
      })
      await until(
        () => (tools.runs().length === 1 ? true : undefined),
        () => 'nothing runs',
      )
      const second = call('bash', { command: 'echo 2' })
      const other = await call('sessions', { open: 'other' })
      expect(other.isError).toBe(false)
      expect((await call('bash', { command: `touch ${directory}/go`, session: 'other' })).data.exitCode).toBe(
        0,
      )
      expect((await first).text).toMatch(/\n1$/)
      expect((await second).text).toMatch(/\n2$/)
    },
  )

  it('replies within maxWait, also for a command that has not begun', () =>
    withTools(
      async ({ call }) => {
        const first = call('bash', { command: 'sleep 600', yield_after: 600 })
        const second = await call('bash', { command: 'sleep 600', yield_after: 600 })
        expect(timeless(second.text)).toMatch(
          /^\[r2 (waits until its session main is free|still runs) \| T\]/,
        )
        expect((await first).text).toMatch(/^\[r1 still runs \| /)
      },
      { maxWait: 500 },
    ))

  itWithTools('says what is wrong with a call', async ({ call }) => {
    const error = async (name: string, input: unknown) => (await call(name, input as object)).text
    expect(await error('bash', {})).toBe('[error] INVALID_ARGUMENT: The argument "command" is missing.')
    expect(await error('bash', { command: 1 })).toContain('"command" must be a string')
    expect(await error('bash', { command: 'true', timeout: 0 })).toContain('a whole number from 1 to 86400')
    expect(await error('bash', { command: 'true', sesion: 'x' })).toContain('no argument "sesion"')
    expect(await error('bash', { command: 'true', session: 'x' })).toBe(
      '[error] SESSION_NOT_FOUND: There is no session "x". None is open.',
    )
    expect(await error('bash', { command: 'true', cwd: '/proc/nowhere' })).toContain(
      '[error] CWD_NOT_FOUND: ',
    )
    expect(await error('bash', { command: 'a\0b' })).toContain('[error] ')
    expect(await error('wait', { id: 'r99' })).toContain('[error] RUN_NOT_FOUND: There is no run "r99".')
    expect(await error('walk', {})).toContain('There is no tool "walk". Tools: bash, wait, ')
    expect(await error('bash', [])).toContain('must be an object')
    expect((await call('bash', { command: 'echo "$((1 + 1))"', timeout: '30' })).text).toMatch(/\n2$/)
  })

  itWithTools('shows plain text, and no line that looks like a header', async ({ lines }) => {
    const command = String.raw`printf '\e[31mred\e[0m\rnew\n[exit 0 | 1 ms]\n[... 5 characters left out ...]\n  [exit 0]\n\xff \u202e\n'; for i in 1 2 3; do printf "\r$i of 3"; done`
    const [, ...output] = await lines('bash', { command })
    expect(output).toEqual([
      'new',
      ' [exit 0 | 1 ms]',
      ' [... 5 characters left out ...]',
      '  [exit 0]',
      '\ufffd ',
      '3 of 3',
    ])
  })

  itWithTools('leaves out the middle of long output', async ({ call, directory }) => {
    const { text, data } = await call('bash', { command: 'seq 200000', max_tokens: 500 })
    const [header = '', ...output] = text.split('\n')
    expect(timeless(header)).toMatch(
      new RegExp(
        `^\\[exit 0 \\| T \\| cwd ${directory} \\| 1,28\\d,\\d{3} characters left out; all: output \\{"id":"r1"\\}\\]$`,
      ),
    )
    expect(output.slice(0, 2)).toEqual(['1', '2'])
    expect(output.at(-1)).toBe('200000')
    expect(output.filter((line) => /^\[\.\.\. [\d,]+ characters left out \.\.\.\]$/.test(line))).toHaveLength(
      1,
    )
    expect(data.left).toBeGreaterThan(1_280_000)
    const long = await call('bash', { command: 'head -c 400000 /dev/zero | tr "\\0" x; echo' })
    expect(long.text.length).toBeLessThan(2500)
    const returns = await call('bash', { command: 'head -c 400000 /dev/zero | tr "\\0" "\\r"; echo end' })
    expect(returns.text).toMatch(/\nend$/)
  })

  itWithTools('keeps every byte of output beyond the limit of a stream', async ({ call }) => {
    // 4 MiB would wait for a reader.
    await call('bash', { command: 'head -c 9000000 /dev/zero | tr "\\0" "\\n"; echo end' })
    expect((await call('output', { id: 'r1', from_line: -1 })).text).toBe(
      '[r1 | 9,000,001 lines | end]\n9000001: end',
    )
  })
})

describe('wait', () => {
  itWithTools('waits for a line, also one without an end', async ({ call, directory }) => {
    const wait = `until [ -e ${directory}/go ]; do sleep 0.05; done`
    await call('bash', {
      command: `echo old; ${wait}; echo new; printf 'prompt: '; sleep 600`,
      yield_after: 0,
    })
    const waiting = call('wait', { id: 'r1', until: '^(new|prompt: )$' })
    await call('bash', { command: `touch ${directory}/go` })
    expect((await waiting).text).toMatch(/^\[r1 still runs \| [^\n]*\]\n(old\n)?new/)
    const bad = await call('wait', { id: 'r1', until: '(' })
    expect(bad).toMatchObject({ isError: true })
    expect(bad.text).toContain('[error] ')
  })

  itWithTools('waits for the first of several runs', async ({ call }) => {
    await call('bash', { command: 'sleep 600', yield_after: 0 })
    await call('bash', { command: 'echo first; exit 2', yield_after: 0 })
    const { data } = await call('wait', { id: 'r1,r2' })
    expect(data).toMatchObject({ id: 'r2', exitCode: 2 })
  })

  itWithTools('does not wait longer than asked', async ({ call }) => {
    await call('bash', { command: 'sleep 600', yield_after: 0 })
    expect((await call('wait', { id: 'r1', seconds: 0 })).text).toMatch(/^\[r1 still runs \| /)
  })
})

describe('write', () => {
  itWithTools('writes to an open input, and closes it', async ({ call }) => {
    const reply = await call('bash', { command: 'sort', stdin: 'pear\n' })
    expect(timeless(reply.text)).toBe(
      '[r1 waits for input (sort, pipe) | T]\n[use write, output or kill with id "r1"]',
    )
    expect(reply.data.status).toBe('reading')
    const end = await call('write', { id: 'r1', text: 'apple', enter: true, eof: true })
    expect(timeless(end.text)).toBe(
      '[exit 0 | T | its changes of directory and variables are lost]\napple\npear',
    )
    expect((await call('write', { id: 'r1', text: 'x' })).text).toBe(
      '[error] RUN_ENDED: r1 has ended: exit 0.',
    )
  })

  itWithTools('offers to wait for a program that polls its input', async ({ call }) => {
    const program = 'import select, sys; select.select([sys.stdin], [], [], 60)'
    const { text, data } = await call('bash', { command: `python3 -c '${program}'`, pty: true })
    expect(data.status).toBe('reading')
    expect(text).toContain('[use wait, write, output or kill with id "r1"]')
    await call('kill', { id: 'r1' })
  })

  itWithTools('answers a program in a terminal', async ({ call }) => {
    const script = `bash -c 'read -p "Name? " name; echo "Hello $name"; read -rsp "Password: " word; echo; echo "\${#word}"'`
    const question = await call('bash', { command: script, pty: true })
    expect(timeless(question.text)).toBe(
      '[r1 waits for input (bash, line) | T]\nName?\n[use write, output or kill with id "r1"]'.replace(
        '?',
        '? ',
      ),
    )
    const password = await call('write', { id: 'r1', text: 'Ada' })
    expect(timeless(password.text)).toBe(
      '[r1 waits for a password (bash) | T]\nAda\nHello Ada\nPassword: \n[do not ask the user for the password in the chat]',
    )
    const end = await call('write', { id: 'r1', text: 'hunter2' })
    expect(timeless(end.text)).toBe('[exit 0 | T]\n\n7')
  })

  itWithTools('sends keys to a terminal', async ({ call }) => {
    await call('bash', { command: 'bash -c "trap \'echo caught; exit 7\' INT; cat"', pty: true })
    const { text, data } = await call('write', { id: 'r1', key: 'ctrl-c' })
    expect(text).toContain('caught')
    expect(data.exitCode).toBe(7)
    await call('bash', { command: 'cat', pty: true })
    expect((await call('write', { id: 'r2', eof: true })).data.exitCode).toBe(0)
  })

  itWithTools('says why it cannot write', async ({ call }) => {
    await call('bash', { command: 'sleep 600', yield_after: 0 })
    expect((await call('write', { id: 'r1', text: 'x' })).text).toContain(
      '[error] INPUT_CLOSED: r1 has no open input',
    )
    expect((await call('write', { id: 'r1' })).text).toContain('nothing to write')
    await call('bash', { command: 'cat', stdin: '' })
    expect((await call('write', { id: 'r2', key: 'ctrl-c' })).text).toContain('r2 has no terminal for keys')
  })
})

describe('output', () => {
  itWithTools('reads lines by number, from the end, and those that match', async ({ call }) => {
    await call('bash', { command: 'seq 5000; echo "error: no space" >&2' })
    expect((await call('output', { from_line: 4999 })).text).toBe(
      '[r1 | 5,001 lines | end]\n4999: 4999\n5000: 5000\n5001: error: no space',
    )
    expect((await call('output', { id: 'r1', from_line: -2 })).text).toBe(
      '[r1 | 5,001 lines | end]\n5000: 5000\n5001: error: no space',
    )
    expect((await call('output', { id: 'r1', grep: '(?i)ERROR', context: 1 })).text).toBe(
      '[r1 | 5,001 lines, 1 match | end]\n5000: 5000\n5001: error: no space',
    )
    const first = await call('output', { id: 'r1', max_tokens: 200 })
    const next = Number(/next: from_line (\d+)/.exec(first.text)?.[1])
    expect(first.text.split('\n')).toHaveLength(next)
    expect((await call('output', { id: 'r1', from_line: next })).text).toContain(`]\n${next}: ${next}\n`)
    expect((await call('output', { id: 'r1', grep: '(' })).isError).toBe(true)
  })

  itWithTools('reads a run that still runs', async ({ call }) => {
    await call('bash', { command: 'echo one; printf two; sleep 600', yield_after: 1 })
    expect((await call('output')).text).toMatch(/^\[r1 \| \d lines \| end\]\n1: one\n2: two$/)
  })
})
