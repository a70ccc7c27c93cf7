/** `nacre serve`, in a process of its own. */
import { once } from 'node:events'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import path from 'node:path'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { freePort, serverCommand } from '../helpers/serving.js'
import { temporary } from '../helpers/temporary.js'
import { until } from '../helpers/until.js'

/** As an executable would run it; the arguments of a script given by -e begin at the same place. */
function nacre(...args: string[]) {
  return nacreIn({}, ...args)
}

function nacreIn(env: Record<string, string>, ...args: string[]) {
  const program = `
    process.argv = [process.argv[0], 'nacre', ...${JSON.stringify(args)}]
    require('./dist/cli/main')
  `
  return startHost(program, [], env)
}

describe('nacre serve', () => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    it(`serves until ${signal}, exits with code 0 and leaves nothing`, async () => {
      const base = temporary('nacre-serve-')
      const file = path.join(base, 'token')
      writeFileSync(file, 'a-token-for-tests\n')
      const host = nacre('serve', '--port', '0', '--token-file', file, '--cwd', base)
      try {
        await host.printed('nacre listens on http://127.0.0.1:')
        const url = /http:\S+/.exec(host.output())?.[0] ?? ''
        const client = new SandboxClient({ url, token: 'a-token-for-tests' })
        expect((await client.exec('pwd')).stdout).toBe(`${base}\n`)
        const process = await client.startProcess('echo on; setsid sleep 67 & sleep 67')
        await process.waitForLog('on')
        const run = client.exec('sleep 67').catch((error) => error)
        host.child.kill(signal)
        expect(await host.ended()).toBe(0)
        expect(await run).toBeInstanceOf(Error)
        await expectGone(host.tag)
      } finally {
        host.child.kill('SIGKILL')
      }
    })
  }

  it('takes its token from a file, which isolated commands do not see', async () => {
    const base = temporary('nacre-serve-')
    const file = path.join(base, 'token')
    writeFileSync(file, 'a-token-for-tests\n')
    const isolated = ['--isolation', 'workspace', '--cwd', base]
    const host = nacre('serve', '--port', '0', '--token-file', file, ...isolated)
    try {
      await host.printed('nacre listens on http://127.0.0.1:')
      const url = /http:\S+/.exec(host.output())?.[0] ?? ''
      const client = new SandboxClient({ url, token: 'a-token-for-tests' })
      expect((await client.exec('cat token 2>/dev/null; pwd')).stdout).toBe(`${base}\n`)
    } finally {
      host.child.kill('SIGTERM')
      await host.ended()
    }
  })

  it('takes its token from a variable, which commands do not get', async () => {
    const env = { MY_TOKEN: 'a-token-for-tests', SHORT: 'secret' }
    const host = nacreIn(env, 'serve', '--port', '0', '--token-env', 'MY_TOKEN')
    try {
      await host.printed('nacre listens on http://127.0.0.1:')
      const url = /http:\S+/.exec(host.output())?.[0] ?? ''
      const client = new SandboxClient({ url, token: 'a-token-for-tests' })
      expect((await client.exec('echo "[$MY_TOKEN]"')).stdout).toBe('[]\n')
      const stranger = await new SandboxClient({ url }).exec('true').catch((error) => error)
      expect(stranger).toMatchObject({ code: 'REQUEST_REFUSED' })
    } finally {
      host.child.kill('SIGTERM')
      await host.ended()
    }
    for (const [words, message] of [
      [['--token-env', 'MISSING'], '--token-env MISSING: there is no variable of this name'],
      [['--token-env', 'SHORT'], 'the token in --token-env SHORT must be at least 16 characters'],
      [['--token-env', 'MY_TOKEN', '--token-file', 'x'], '--token-file and --token-env exclude each other'],
      [['--token-env', 'MY_TOKEN', '--stdio'], '--stdio and --token-env exclude each other'],
    ] as const) {
      const refused = nacreIn(env, 'serve', ...words)
      expect(await refused.ended()).toBe(2)
      expect(refused.output()).toContain(message)
    }
  })

  it('forwards ports with --forward-ports', async () => {
    const host = nacre('serve', '--port', '0', '--forward-ports')
    try {
      await host.printed('nacre listens on http://127.0.0.1:')
      const client = new SandboxClient({ url: /http:\S+/.exec(host.output())?.[0] ?? '' })
      const port = await freePort()
      await client.startService(serverCommand({ port }), { healthCheck: { port } })
      expect(await (await fetch(await client.portUrl(port))).text()).toBe('hello')
      host.child.kill('SIGTERM')
      expect(await host.ended()).toBe(0)
    } finally {
      host.child.kill('SIGKILL')
    }
  })

  it('asks its clients for hosts with --ask', async () => {
    const cwd = temporary('nacre-serve-')
    const host = nacre('serve', '--port', '0', '--cwd', cwd, '--isolation', 'workspace', '--ask')
    try {
      await host.printed('nacre listens on http://127.0.0.1:')
      const client = new SandboxClient({ url: /http:\S+/.exec(host.output())?.[0] ?? '' })
      const running = client.exec("curl -s -o /dev/null -w '%{http_code}' http://host.invalid")
      const question = await until(
        async () => (await client.questions())[0],
        () => 'nothing asks',
      )
      expect(question.target).toBe('host.invalid:80')
      await client.answer(question.id, 'deny')
      expect((await running).stdout).toBe('403')
    } finally {
      host.child.kill('SIGTERM')
      await host.ended()
    }
  })

  it('keeps changes with --copy-on-write until a client commits them', async () => {
    const base = temporary('nacre-serve-')
    const cwd = path.join(base, 'real')
    mkdirSync(cwd)
    /** Serves for a moment. */
    const serving = async (args: string[], test: (client: SandboxClient) => Promise<void>) => {
      const host = nacreIn({ TMPDIR: base }, 'serve', '--port', '0', '--cwd', cwd, ...args)
      try {
        await host.printed('nacre listens on http://127.0.0.1:')
        await test(new SandboxClient({ url: /http:\S+/.exec(host.output())?.[0] ?? '' }))
      } finally {
        host.child.kill('SIGTERM')
        await host.ended()
      }
    }
    await serving(['--copy-on-write', '--undo-steps', '5'], async (client) => {
      await client.exec('echo lost > lost')
      await client.exec('rm lost')
      expect(await client.undo()).toMatchObject({ command: 'rm lost' })
      expect((await client.exec('ls')).stdout).toBe('lost\n')
      expect(await client.workspace.info()).toEqual({ path: cwd, id: null })
    })
    await serving(['--copy-on-write', 'task-7'], async (client) => {
      await client.exec('echo kept > kept')
    })
    expect(readdirSync(cwd)).toEqual([])
    await serving(['--copy-on-write', 'task-7'], async (client) => {
      expect(await client.workspace.info()).toEqual({ path: cwd, id: 'task-7' })
      expect(await client.workspace.commit()).toMatchObject({ applied: 1 })
    })
    expect(readdirSync(cwd)).toEqual(['kept'])
    await serving([], (client) => client.workspace.delete('task-7'))
    const host = nacre('serve', '--port', '0', '--cwd', cwd, '--copy-on-write', '')
    expect(await host.ended()).toBe(2)
  })

  it('reports the problem, and does not start', async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const { port } = taken.address() as AddressInfo
    const cases: Array<[string[], number, string]> = [
      [['serve', '--host', '0.0.0.0'], 2, 'token'],
      [['serve', '--token-file', '/proc/does/not/exist'], 2, 'ENOENT'],
      [['serve', '--port', 'x'], 2, 'whole number'],
      [['serve', '--undo-steps', '5'], 2, '--undo-steps needs --copy-on-write'],
      [['serve', '--ask'], 2, 'add --isolation workspace'],
      [['serve', '--ask', '--isolation', 'none'], 2, 'add --isolation workspace'],
      [['serve', '--copy-on-write', '--undo-steps', '101'], 2, 'undoSteps'],
      [['serve', '--stdio', '--host', '::1'], 2, '--stdio and --host exclude each other'],
      [
        ['serve', '--stdio', '--port', '0', '--token-file', 'x'],
        2,
        '--stdio and --port and --token-file exclude',
      ],
      [['serve', '--stdio', '--allow-origin', 'http://a'], 2, '--stdio and --allow-origin exclude'],
      [['serve', '--stdio', '--sandboxd'], 2, '--stdio and --sandboxd exclude'],
      [['serve', '--stdio', '--forward-ports'], 2, '--stdio and --forward-ports exclude'],
      [['serve', '--console', '--forward-ports'], 2, '--console and --forward-ports exclude each other'],
      [['serve', '--port', String(port)], 1, `--port ${port} cannot be used on 127.0.0.1`],
    ]
    for (const [args, code, text] of cases) {
      const host = nacre(...args)
      expect(await host.ended()).toBe(code)
      expect(host.output()).toContain(text)
    }
    taken.close()
  })

  it('does not start when no command could run', async () => {
    const redis = ['--redis', 'redis://127.0.0.1:1']
    const cases: Array<[Record<string, string>, string[], string]> = [
      [{ PATH: '/proc/does/not/exist' }, ['serve', '--port', '0'], 'install bash'],
      [{ NACRE_NATIVE_PATH: '/proc/does/not/exist' }, ['serve', '--port', '0'], '/proc/does/not/exist'],
      [{ NACRE_ISOLATION: 'none' }, ['serve', '--port', '0', '--isolation', 'workspace'], 'isolation'],
      [{ NACRE_ISOLATION: 'none' }, ['worker', '--isolation', 'workspace', ...redis], 'isolation'],
    ]
    for (const [env, args, text] of cases) {
      const host = nacreIn(env, ...args)
      expect(await host.ended(), args.join(' ')).toBe(1)
      expect(host.output()).toContain(text)
      expect(host.output()).not.toContain('listens')
    }
  })
})
