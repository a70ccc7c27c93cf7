import { existsSync, writeFileSync } from 'node:fs'
import { createTools } from '@nacre/tools'
import { OptionError, Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../../../__test__/helpers/invariants.js'
import { until } from '../../../__test__/helpers/until.js'
import { itWithTools, withTools } from './places.js'

describe('a function that opens the sandbox', () => {
  it('is called once for calls at the same time, and the tools end what it has opened', () =>
    withSandbox(async ({ directory }) => {
      const sandbox = new Sandbox({ cwd: directory })
      let count = 0
      const tools = createTools(async ({ onProgress }) => {
        onProgress(`the sandbox ${++count}`)
        return sandbox
      })
      const calls = [1, 2].map((number) => tools.call('bash', { command: `echo ${number}` }))
      const texts = (await Promise.all(calls)).map(({ text }) => text.split('\n')[1])
      expect([texts.sort(), count, tools.runs().length]).toEqual([['1', '2'], 1, 2])
      await tools.close()
      expect((await tools.call('bash', { command: 'true' })).data.code).toBe('TOOLS_CLOSED')
      await expect(sandbox.exec('true')).rejects.toMatchObject({ code: 'SANDBOX_DESTROYED' })
    }))

  it('is told when the tools close, and what it still opens is destroyed', () =>
    withSandbox(async ({ directory }) => {
      const sandbox = new Sandbox({ cwd: directory })
      const seen: string[] = []
      const tools = createTools(
        ({ signal, onProgress }) => {
          onProgress('step one')
          return new Promise((resolve) => signal.addEventListener('abort', () => resolve(sandbox)))
        },
        { maxWait: 1100 },
      )
      const onProgress = ({ message }: { message: string }) => seen.push(message)
      const reply = await tools.get('bash')?.execute({ command: 'true' }, { onProgress })
      expect(reply?.text).toMatch(/^\[starts \| 1\.\d s \| step one\]\n\[nothing has run yet: call again\]$/)
      expect(seen).toEqual(['step one'])
      await tools.close()
      await expect(sandbox.exec('true')).rejects.toMatchObject({ code: 'SANDBOX_DESTROYED' })
    }))

  it('may fail, and the next call tries again', () =>
    withSandbox(async ({ directory }) => {
      const sandbox = new Sandbox({ cwd: directory })
      let count = 0
      await using tools = createTools(() => {
        if (++count === 1) throw new OptionError('INVALID_OPTION', 'no sandbox today')
        return Promise.resolve(sandbox)
      })
      expect((await tools.call('bash', { command: 'true' })).text).toBe(
        '[error] INVALID_OPTION: no sandbox today',
      )
      expect((await tools.call('bash', { command: 'echo ran' })).text).toMatch(/ran$/)
    }))
})

describe('redact', () => {
  const SECRET = 'hunter2-hunter2'
  itWithTools(
    'hides values everywhere in replies',
    async ({ call, directory }) => {
      const texts = [
        await call('bash', { command: `echo a ${SECRET} b; echo key-12345` }),
        await call('bash', {
          command: `seq 3000; echo ${SECRET.slice(0, 9)}\\\n${SECRET.slice(9)}; seq 3000`,
          max_tokens: 300,
        }),
        await call('output', { id: 'r1' }),
        await call('output', { id: 'r2', grep: 'hunter' }),
        await call('bash', { command: `mkdir ${SECRET}; cd ${SECRET}` }),
        await call('bash', { command: `cd ${directory}`, cwd: `/${SECRET}` }),
        await call('wait', { id: SECRET }),
      ].map(({ text }) => text)
      for (const text of texts) expect(text).not.toContain('hunter2')
      expect(texts[0]).toMatch(/\na \[redacted\] b\n\[redacted\]$/)
      expect(texts[2]).toBe('[r1 | 2 lines | end]\n1: a [redacted] b\n2: [redacted]')
      expect(texts[4]).toContain('/[redacted]]')
    },
    { redact: [SECRET, /key-\d+/] },
  )

  it('hides halves of a value at the ends of what a reply shows', () =>
    withTools(
      async ({ call, directory }) => {
        const command = `printf 'x ${SECRET.slice(0, 8)}'; until [ -e ${directory}/go ]; do sleep 0.05; done; printf '${SECRET.slice(8)}! y'`
        const begun = await call('bash', { command, yield_after: 1 })
        await call('bash', { command: `touch ${directory}/go` })
        const end = await call('wait', { id: 'r1' })
        expect(begun.text).toContain('\nx [redacted]\n')
        expect(end.text).toMatch(/\n\[redacted\] y$/)
      },
      { redact: [`${SECRET}!`] },
    ))
})

describe('a call with a signal', () => {
  itWithTools('of bash kills the command with everything it started', async ({ tools, directory }) => {
    const aborting = new AbortController()
    const command = `sleep 600 & touch ${directory}/begun; sleep 600`
    const running = tools.call('bash', { command }, { signal: aborting.signal })
    await until(
      () => (existsSync(`${directory}/begun`) ? true : undefined),
      () => 'it does not begin',
    )
    aborting.abort()
    expect((await running).text).toMatch(/^\[killed, its call was cancelled \| /)
    expect(tools.runs().filter(({ isRunning }) => isRunning)).toEqual([])
    const aborted = await tools.call('bash', { command: 'sleep 600' }, { signal: AbortSignal.abort() })
    expect(aborted.text).toMatch(/^\[killed, its call was cancelled \| /)
  })

  itWithTools('of wait leaves the run alone', async ({ tools, call }) => {
    await call('bash', { command: 'sleep 600', yield_after: 0 })
    const aborting = new AbortController()
    const waiting = tools.call('wait', { id: 'r1' }, { signal: aborting.signal })
    aborting.abort()
    expect((await waiting).text).toContain('r1 still runs')
    expect(tools.runs()).toMatchObject([{ id: 'r1', isRunning: true }])
  })
})

describe('progress', () => {
  itWithTools('has the last line, at most once a second', async ({ tools, directory }) => {
    const seen: { seconds: number; message: string }[] = []
    const command = `echo first; echo 'last line'; until [ -e ${directory}/go ]; do sleep 0.05; done`
    const running = tools.call('bash', { command }, { onProgress: (progress) => void seen.push(progress) })
    await until(
      () => (seen.length > 0 ? true : undefined),
      () => 'no progress',
    )
    writeFileSync(`${directory}/go`, '')
    await running
    expect(seen[0]).toMatchObject({ message: 'last line' })
  })
})

describe('limits', () => {
  itWithTools(
    'bound the runs, and the ended ones that are kept',
    async ({ call, tools }) => {
      await call('bash', { command: 'sleep 600', yield_after: 0 })
      await call('bash', { command: 'sleep 600', yield_after: 0 })
      expect((await call('bash', { command: 'true' })).text).toMatch(
        /^\[error\] TOO_MANY_RUNS: 2 commands run already/,
      )
      await call('kill', { id: 'r1' })
      for (const id of ['r3', 'r4']) expect((await call('bash', { command: 'true' })).data.id).toBe(id)
      expect(tools.runs().map(({ id }) => id)).toEqual(['r2', 'r4'])
      expect((await call('output', { id: 'r1' })).text).toBe(
        '[error] RUN_NOT_FOUND: There is no run "r1". Running: r2.',
      )
    },
    { maxRuns: 2, keepRuns: 1 },
  )

  it('are checked', () => {
    const sandbox = new Sandbox()
    expect(() => createTools(sandbox, { tools: ['walk' as never] })).toThrow(
      /^tools must be a list of bash, wait, .*, not "walk"$/,
    )
    expect(() => createTools(undefined as never)).toThrow('must be a Sandbox, a SandboxClient or a function')
    expect(createTools(sandbox, { tools: ['bash', 'kill'] }).list.map(({ name }) => name)).toEqual([
      'bash',
      'kill',
    ])
  })
})

describe('close', () => {
  itWithTools('kills everything, ends the sessions and refuses calls', async ({ call, tools, sandbox }) => {
    await call('bash', { command: 'sleep 600 & disown; true' })
    await call('bash', { command: 'setsid sleep 600', yield_after: 0 })
    await call('bash', { command: 'cat', pty: true })
    await call('bash', { command: 'cat', stdin: 'x' })
    await call('service', { name: 'web', command: 'sleep 600' })
    const pending = [
      call('bash', { command: 'sleep 600' }),
      call('service', { name: 'late', command: 'sleep 600', log: 'never' }),
      call('wait', { id: 'r2' }),
      call('bash', { command: 'sleep 600', pty: true }),
      call('sessions', { open: 'new' }),
    ]
    await tools.close()
    await Promise.all(pending)
    expect(tools.runs().filter(({ isRunning }) => isRunning)).toEqual([])
    expect(await sandbox.listProcesses({ status: ['running', 'starting'] })).toEqual([])
    expect((await sandbox.listSessions()).map(({ id }) => id)).toEqual(['default'])
    expect((await call('bash', { command: 'true' })).text).toBe('[error] TOOLS_CLOSED: The tools are closed.')
    await tools.close()
  })
})
