/** Properties that another module has added to Object.prototype are no options: in this process, over HTTP, of `nacre`. */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { startHost } from '../helpers/host.js'
import { temporary } from '../helpers/temporary.js'

const main = path.join(path.dirname(path.dirname(__dirname)), 'dist', 'cli', 'main.js')

/** Names of options that the runtimes do not take for their own, with values that would show. */
const pollution = {
  cwd: '/usr',
  env: { POLLUTED: '1' },
  maxBuffer: 3,
  outputLimit: 1,
  sessionId: 'polluted',
  input: 'polluted',
  check: true,
  background: true,
  openInput: true,
  wholeResult: true,
  mergeOutput: true,
  killSignal: 'SIGKILL',
  forceKillAfterDelay: 1,
  processId: 'polluted',
  jobId: 'polluted',
  jobsRoot: '/polluted',
  isolation: 'read-only',
  limits: { pids: 1 },
  autoCleanup: true,
  pty: true,
  cursor: '3',
  json: true,
  bounds: { maxBuffer: 3 },
}

const COMMAND = 'echo out:$POLLUTED; pwd; cat'

const program = `
  const { serve } = require('@nacre/server')
  const { SandboxClient } = require('nacre/client')
  const main = async () => {
    const sandbox = new Sandbox({ cwd: '/tmp', jobsRoot: process.env.DIRECTORY })
    const { url } = await serve(sandbox, { port: 0 })
    // The runtime loads its fetch, and nacre its server, before.
    await (await fetch(url + '/v1/sessions')).text()
    await sandbox.exec('true')
    Object.assign(Object.prototype, ${JSON.stringify(pollution)})
    const say = (name, text) => print(name + ': ' + JSON.stringify(text))
    const http = async (method, route, body) => {
      const headers = new Headers([['content-type', 'application/json']])
      const content = body === undefined ? undefined : JSON.stringify(body)
      return (await fetch(url + route, { method, headers, body: content })).text()
    }
    const client = new SandboxClient({ url })
    for (const [name, one] of [['local', sandbox], ['client', client]]) {
      for (const [kind, options] of [['', undefined], [' with options', {}]]) {
        say(name + ' exec' + kind, (await one.exec(${JSON.stringify(COMMAND)}, options)).stdout)
        say(name + ' stream' + kind, (await one.execStream(${JSON.stringify(COMMAND)}, options).result).stdout)
        const started = await one.startProcess(${JSON.stringify(COMMAND)}, options)
        await started.waitForExit()
        say(name + ' process' + kind, (await started.getLogs()).stdout)
      }
      const job = await one.jobs.start({ command: ${JSON.stringify(COMMAND)} })
      await one.jobs.wait(job)
      say(name + ' job', (await one.jobs.read(job)).raw)
      await one.jobs.remove(job)
      const session = await one.createSession({ id: name })
      say(name + ' session', (await session.exec(${JSON.stringify(COMMAND)})).stdout)
      await session.files.write(process.env.DIRECTORY + '/file', 'content')
      say(name + ' files', await session.files.read(process.env.DIRECTORY + '/file'))
      await session.files.remove(process.env.DIRECTORY + '/file')
    }
    for (const route of ['/v1/exec', '/api/execute'])
      say(route, await http('POST', route, { command: ${JSON.stringify(COMMAND)} }))
    say('/v1/exec/stream', await http('POST', '/v1/exec/stream', { command: ${JSON.stringify(COMMAND)} }))
    const process1 = JSON.parse(await http('POST', '/v1/processes', { command: ${JSON.stringify(COMMAND)} }))
    await http('POST', '/v1/processes/' + process1.id + '/wait-for-exit', {})
    say('/v1/processes', await http('GET', '/v1/processes/' + process1.id + '/logs'))
    // The fallback to the home directory.
    const there = await http('POST', '/api/session/create', { id: 'lost', cwd: '/proc/nonexistent' })
    say('/api/session/create', JSON.parse(there).success + ' ' + (await sandbox.exec(${JSON.stringify(COMMAND)}, { sessionId: 'lost', cwd: '/tmp' })).stdout)
    const running = await sandbox.startProcess('sleep 60')
    say('/metrics', /^nacre_processes 1$/m.test(await http('GET', '/metrics')) ? ${JSON.stringify('out:\\n/tmp\\n')} : 'no process')
    await running.kill()
    print('over.')
    process.exit(0)
  }
  main().catch((error) => { print('failed: ' + error.stack); process.exit(1) })
`

it('in this process and over HTTP', async () => {
  const directory = temporary('nacre-pollution-')
  const host = startHost(program, [], { DIRECTORY: directory })
  try {
    expect(await host.ended(), host.output()).toBe(0)
    const lines = host
      .output()
      .split('\n')
      .filter((line) => /^\S.*: "/.test(line))
    const expected = 'out:\n/tmp\n'
    for (const line of lines) {
      const [, name = '', text = ''] = /^(.*?): (".*")$/.exec(line) ?? []
      const value = JSON.parse(text)
      // Replies are JSON themselves.
      if (name.startsWith('/')) expect(value.replaceAll('\n', '\\n'), name).toContain('out:\\n/tmp\\n')
      else expect(value, name).toBe(name.endsWith(' files') ? 'content' : expected)
    }
    expect(lines).toHaveLength(24)
  } finally {
    host.child.kill('SIGKILL')
  }
})

/** Names of what errors have. */
const ofErrors = {
  ...{ path: '/p', paths: ['/p'], logTail: 'p', result: {}, lost: { reason: 'p' }, reason: 'p' },
  ...{ kind: 'polluted', shortMessage: 'p', cause: 'p' },
}

const failing = `
  const { serve } = require('@nacre/server')
  const { SandboxClient } = require('nacre/client')
  const main = async () => {
    const sandbox = new Sandbox()
    const { url } = await serve(sandbox, { port: 0 })
    const client = new SandboxClient({ url })
    const failures = async (one) => [
      await one.exec('true', { sessionId: 'none' }).catch((error) => error),
      await one.exec('true', { timeout: 'none' }).catch((error) => error),
      await one.files.read('/none').catch((error) => error),
    ].map((error) => JSON.stringify(Object.getOwnPropertyNames(error).filter((name) => name !== 'stack').map((name) => [name, error[name]])))
    const all = async () => [await failures(sandbox), await failures(client)]
    const before = await all()
    Object.assign(Object.prototype, ${JSON.stringify(ofErrors)})
    const after = await all()
    for (const name of Object.keys(${JSON.stringify(ofErrors)})) delete Object.prototype[name]
    print(JSON.stringify({ before, after }))
    process.exit(0)
  }
  main().catch((error) => { print('failed: ' + error.stack); process.exit(1) })
`

it('of errors', async () => {
  const host = startHost(failing)
  try {
    expect(await host.ended(), host.output()).toBe(0)
    const { before, after } = JSON.parse(/^{.*}$/m.exec(host.output())?.[0] ?? '')
    expect(after).toEqual(before)
    expect(before.flat().every((own: string) => own.includes('"kind"'))).toBe(true)
  } finally {
    host.child.kill('SIGKILL')
  }
})

it('of the command line', () => {
  const directory = temporary('nacre-pollution-')
  const preload = path.join(directory, 'preload.cjs')
  const options = { json: true, tty: true, isolation: 'read-only', grace: 1, env: { A: '1' }, cwd: '/usr' }
  // Not enumerable, as a polyfill would be: the modules of the command line do not load otherwise.
  const pollute = `for (const [name, value] of Object.entries(${JSON.stringify(options)}))
    Object.defineProperty(Object.prototype, name, { value, writable: true, configurable: true })`
  writeFileSync(preload, pollute)
  const flag = process.versions.bun === undefined ? '--require' : '--preload'
  const nacre = (...words: string[]) =>
    spawnSync(process.execPath, [flag, preload, main, ...words], {
      encoding: 'utf8',
      cwd: directory,
      input: '',
    })
  const run = nacre('exec', 'touch made; echo "$A"; pwd')
  expect([run.status, run.stdout, run.stderr]).toEqual([0, `\n${directory}\n`, ''])
})
