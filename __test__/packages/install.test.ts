/**
 * The tarballs of `npm run build:packages`, installed by npm into an empty project: without a registry, and without a
 * compiler on PATH. Run by `npm run test:install`, which builds them around the debug build, and by `npm run test:full` with
 * those of a release.
 */
import { execFile, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { VERSION } from '../../lib/addon/platforms.js'
import { pack, stageContainer } from '../../scripts/packages/stage.mjs'
import { hostTarget, packageName } from '../../scripts/packages/targets.mjs'

const run = promisify(execFile)
const root = path.dirname(path.dirname(__dirname))
const built = path.join(root, process.env.NACRE_TEST_PACKAGES ?? 'target/packages')
const target = hostTarget()
const tarballs = {
  main: path.join(built, `nacre-${VERSION}.tgz`),
  platform: path.join(built, `nacre-${target}-${VERSION}.tgz`),
}
const companion = (name: string) => path.join(built, `nacre-${name}-${VERSION}.tgz`)
/** All that the project's PATH has. */
const TOOLS = ['bash', 'cat', 'env', 'false', 'node', 'npm', 'seq', 'sh', 'sleep', 'true', 'uname']

let base: string
let project: string
let env: NodeJS.ProcessEnv

const PROGRAM = `
  import { Sandbox } from 'nacre'
  const sandbox = new Sandbox({ jobsRoot: process.env.TMPDIR + '/jobs-' + process.pid })
  await sandbox.exec('x=1; cd /')
  const { stdout } = await sandbox.exec('echo $x $PWD')
  const lines = []
  for await (const line of sandbox.execStream('seq 3').lines()) lines.push(line)
  const process_ = await sandbox.startProcess('echo up; sleep 60')
  await process_.waitForLog('up')
  await process_.kill()
  const { jobId } = await sandbox.jobs.start({ command: 'exit 4' })
  const { exitCode } = await sandbox.jobs.wait(jobId)
  await sandbox.destroy()
  console.log(JSON.stringify({ stdout, lines, exitCode }))
`

beforeAll(() => {
  base = mkdtempSync(path.join(os.tmpdir(), 'nacre-install-'))
  const bin = path.join(base, 'bin')
  project = path.join(base, 'project')
  for (const name of [bin, project, path.join(base, 'tmp'), path.join(base, 'home')]) mkdirSync(name)
  for (const tool of TOOLS) symlinkSync(which(tool), path.join(bin, tool))
  symlinkSync(path.join(root, 'node_modules/.bin/bun'), path.join(bin, 'bun'))
  env = { PATH: bin, HOME: path.join(base, 'home'), TMPDIR: path.join(base, 'tmp') }
  writeFileSync(path.join(project, 'package.json'), '{ "private": true, "type": "module" }')
  const args = ['install', '--offline', '--no-audit', '--no-fund', tarballs.main, tarballs.platform]
  execFileSync('npm', args, { cwd: project, env, stdio: ['ignore', 'ignore', 'pipe'] })
  writeFileSync(path.join(project, 'main.js'), PROGRAM)
}, 120_000)

afterAll(() => rmSync(base, { recursive: true, force: true }))

function which(tool: string): string {
  return execFileSync('bash', ['-c', 'type -P "$1"', 'bash', tool], { encoding: 'utf8' }).trim()
}

function inProject(program: string, ...args: string[]): Promise<{ stdout: string }> {
  return run(path.join(base, 'bin', program), args, { cwd: project, env })
}

describe('the installed packages', () => {
  it('are nacre and its platform package, and nothing else', () => {
    const modules = path.join(project, 'node_modules')
    expect(
      readdirSync(modules)
        .filter((name) => !name.startsWith('.'))
        .sort(),
    ).toEqual(['@nacre', 'nacre'])
    expect(readdirSync(path.join(modules, '@nacre'))).toEqual([target])
  })

  it('have no script that runs at the installation, and no dependency that npm would install', () => {
    for (const name of ['nacre', packageName(target)]) {
      const text = readFileSync(path.join(project, 'node_modules', name, 'package.json'), 'utf8')
      const { scripts, dependencies, peerDependencies = {}, peerDependenciesMeta, version } = JSON.parse(text)
      expect([scripts, dependencies, version]).toEqual([undefined, undefined, VERSION])
      for (const peer of Object.keys(peerDependencies)) expect(peerDependenciesMeta[peer].optional).toBe(true)
    }
    const installed = readdirSync(path.join(project, 'node_modules')).filter((name) => !name.startsWith('.'))
    expect(installed.sort()).toEqual(['@nacre', 'nacre'])
  })

  it('name the licences of what is inside them', () => {
    const read = (name: string) => readFileSync(path.join(project, 'node_modules', name, 'NOTICE'), 'utf8')
    for (const name of ['commander', 'eventsource-parser']) expect(read('nacre')).toMatch(`- ${name} `)
    for (const name of ['tokio', 'napi', 'serde_json', 'musl'])
      expect(read(packageName(target))).toMatch(`- ${name} `)
  })
})

describe('without a compiler on PATH', () => {
  for (const runtime of ['node', 'bun']) {
    it(`a command, a stream, a process and a job run on ${runtime}`, async () => {
      const { stdout } = await inProject(runtime, 'main.js')
      expect(JSON.parse(stdout)).toEqual({ stdout: '1 /\n', lines: ['1', '2', '3'], exitCode: 4 })
    }, 30_000)

    it(`the command line runs on ${runtime}`, async () => {
      const main = 'node_modules/nacre/dist/cli/main.js'
      expect((await inProject(runtime, main, 'exec', 'echo ran')).stdout).toBe('ran\n')
    })
  }
})

/** Unpacks a companion package into the project, and links the repository's copies of its dependencies. */
function putCompanion(name: string, dependencies: string[]): void {
  const modules = path.join(project, 'node_modules')
  const unpacked = path.join(modules, '@nacre', name)
  mkdirSync(unpacked)
  execFileSync('tar', ['-xzf', companion(name), '--strip-components=1', '-C', unpacked])
  for (const dependency of dependencies) putDependency(dependency)
}

function putDependency(name: string): void {
  const link = path.join(project, 'node_modules', name)
  if (!existsSync(link)) symlinkSync(path.join(root, 'node_modules', name), link)
}

describe('@nacre/server', () => {
  it('gives nacre its verb, and is named where it is not installed', async () => {
    const command = ['node_modules/nacre/dist/cli/main.js', 'serve', '--help']
    const { code, stderr } = await inProject('node', ...command.slice(0, -1)).catch((error) => error)
    expect([code, stderr]).toEqual([2, 'nacre: nacre serve needs @nacre/server: npm install @nacre/server\n'])
    putCompanion('server', ['@hono', 'hono', 'ws'])
    expect((await inProject('node', ...command)).stdout).toContain('serve a sandbox over HTTP')
  })

  it('is not called missing when only a part of it is', async () => {
    const part = path.join(project, 'node_modules/@nacre/server/dist/cli/serve.js')
    renameSync(part, `${part}.away`)
    const command = ['node_modules/nacre/dist/cli/main.js', 'serve']
    const { stderr } = await inProject('node', ...command).catch((error) => error)
    renameSync(`${part}.away`, part)
    expect(stderr).toContain(part)
    expect(stderr).not.toContain('npm install')
  })

  it(
    'answers',
    () =>
      withServer(async (url) => {
        expect((await fetch(`${url}/healthz`)).status).toBe(200)
      }),
    30_000,
  )

  const USE = `
    void (async () => {
      const sandbox = new Sandbox()
      const server = await serve(sandbox, { port: 0 })
      const client = new SandboxClient({ url: server.url })
      const { code } = await client.exec('exit 3', { check: true }).catch((error) => error)
      createServer(client)
      let refusal
      try { createServer({}) } catch (error) { refusal = error }
      await client.destroy()
      await server.close()
      await sandbox.destroy()
      console.log(code, refusal instanceof OptionError)
    })()
  `
  const names = [
    ['nacre', 'OptionError, Sandbox'],
    ['nacre/client', 'SandboxClient'],
    ['@nacre/server', 'createServer, serve'],
  ]
  const programs = {
    'server.mjs': names.map(([from, list]) => `import { ${list} } from '${from}'\n`),
    'server.cjs': names.map(([from, list]) => `const { ${list} } = require('${from}')\n`),
  }

  it.each(['node', 'bun'].flatMap((runtime) => Object.entries(programs).map((file) => [runtime, ...file])))(
    'knows the sandboxes of nacre, and shares its error classes, on %s in %s',
    async (runtime, file, head) => {
      writeFileSync(path.join(project, String(file)), [...head, USE].join(''))
      expect((await inProject(String(runtime), String(file))).stdout).toBe('COMMAND_FAILED true\n')
    },
    30_000,
  )
})

/** Runs a test with a server of the installed packages. */
async function withServer(test: (url: string) => Promise<void>): Promise<void> {
  const args = ['serve', '--port', '0']
  const server = spawn(path.join(project, 'node_modules/.bin/nacre'), args, { cwd: project, env })
  try {
    const [line] = await once(server.stdout, 'data')
    await test(/http:\S+/.exec(String(line))?.[0] ?? '')
  } finally {
    server.kill()
    await once(server, 'exit')
  }
}

describe.each([
  ['darwin', 'arm64', 'use openSandbox of nacre/engine, which runs it in a Linux container'],
  ['win32', 'x64', 'run it in WSL 2 or a container'],
])('the tarball of nacre, installed on %s,', (platform, cpu, remedy) => {
  let other: string

  beforeAll(() => {
    other = path.join(base, platform)
    mkdirSync(other)
    writeFileSync(path.join(other, 'package.json'), '{ "private": true, "type": "module" }')
    const args = ['install', `--os=${platform}`, `--cpu=${cpu}`, '--offline', '--no-audit', '--no-fund']
    execFileSync('npm', [...args, tarballs.main], { cwd: other, env, stdio: ['ignore', 'ignore', 'pipe'] })
  }, 120_000)

  /** What a program prints that believes to run there. */
  async function printed(program: string): Promise<string> {
    const text = `Object.defineProperty(process, 'platform', { value: '${platform}' })\n${program}`
    writeFileSync(path.join(other, 'main.js'), text)
    return (await run(path.join(base, 'bin/node'), ['main.js'], { cwd: other, env })).stdout
  }

  it('is the only package', () => {
    const installed = readdirSync(path.join(other, 'node_modules'))
    expect(installed.filter((name) => !name.startsWith('.'))).toEqual(['nacre'])
  })

  it(
    'has a client that runs commands on a server',
    () =>
      withServer(async (url) => {
        const program = `const { SandboxClient } = await import('nacre/client')
        const client = new SandboxClient({ url: '${url}' })
        console.log((await client.exec('cat', { input: 'there' })).stdout)
        await client.destroy()`
        expect(await printed(program)).toBe('there\n')
      }),
    30_000,
  )

  it('has the same error classes in nacre and nacre/client', async () => {
    const program = `const nacre = await import('nacre')
      const client = await import('nacre/client')
      console.log(nacre.SandboxError === client.SandboxError, nacre.OptionError === client.OptionError)`
    expect(await printed(program)).toBe('true true\n')
  })

  it('rejects a local command with the reason and the remedy', async () => {
    const program = `const { Sandbox } = await import('nacre')
      console.log((await new Sandbox().exec('true').catch((error) => error)).message)`
    expect(await printed(program)).toBe(`nacre runs on Linux only, and this is ${platform}: ${remedy}\n`)
  })
})

describe('the package for containers', () => {
  const cpu = process.arch
  const name = `@nacre/container-${cpu}`
  let tarball: string

  beforeAll(() => {
    const directory = path.join(base, 'container')
    // Of the one C library that this run has built.
    stageContainer(root, cpu, { [target.split('-')[2] ?? '']: path.join(built, 'staged', target) }, directory)
    tarball = pack(directory, base).file
  }, 120_000)

  /** Without a registry, the project declares the package as nacre does. Returns what is installed. */
  function install(platform: string): string[] {
    const directory = path.join(base, `containers-${platform}`)
    mkdirSync(directory)
    const manifest = { private: true, type: 'module', optionalDependencies: { [name]: `file:${tarball}` } }
    writeFileSync(path.join(directory, 'package.json'), JSON.stringify(manifest))
    const args = ['install', `--os=${platform}`, `--cpu=${cpu}`, '--offline', '--no-audit', '--no-fund']
    const options = { cwd: directory, env, stdio: ['ignore', 'ignore', 'pipe'] as 'pipe'[] }
    execFileSync('npm', [...args, tarballs.main], options)
    const modules = path.join(directory, 'node_modules')
    return ['', '@nacre'].flatMap((scope) =>
      existsSync(path.join(modules, scope))
        ? readdirSync(path.join(modules, scope)).filter((entry) => /^(nacre|container-.*)$/.test(entry))
        : [],
    )
  }

  it('is not installed on Linux', () => {
    expect(install('linux')).toEqual(['nacre'])
  }, 60_000)

  it('is installed on a Mac, and openSandbox copies it into the cache of the user', async () => {
    expect(install('darwin')).toEqual(['nacre', `container-${cpu}`])
    const mac = path.join(base, 'containers-darwin')
    // A stand-in for an engine, which shows what is mounted.
    const engine = path.join(base, 'bin/docker')
    const about = { ServerVersion: '28.1.0', OSType: 'linux', Architecture: cpu }
    writeFileSync(
      engine,
      `#!/bin/bash
      case $1 in
        info) echo '${JSON.stringify(about)}' ;;
        inspect) echo 'no such object' >&2; exit 1 ;;
        image) echo ${cpu} ;;
        run) printf '%s\\n' "$@" >&2; exit 9 ;;
      esac`,
      { mode: 0o755 },
    )
    const program = `
      Object.defineProperty(process, 'platform', { value: 'darwin' })
      const { openSandbox } = await import('nacre/engine')
      console.log((await openSandbox({ engine: 'docker' }).catch((error) => error)).code)
    `
    writeFileSync(path.join(mac, 'main.js'), program)
    const { stdout } = await run(path.join(base, 'bin/node'), ['main.js'], { cwd: mac, env })
    expect(stdout).toBe('CONTAINER_FAILED\n')
    const cache = path.join(base, 'home/Library/Caches/nacre/runtime')
    const [copy = '', ...others] = readdirSync(cache)
    expect(others).toEqual([])
    expect(copy).toMatch(new RegExp(`^${VERSION}-${cpu}-[0-9a-f]{12}$`))
    const abi = target.split('-')[2] ?? ''
    expect(readdirSync(path.join(cache, copy)).sort()).toEqual([abi, 'inside.mjs', 'nacre-supervisor'].sort())
    const supervisor = path.join(mac, 'node_modules', name, 'nacre-supervisor')
    for (const file of ['nacre-supervisor', `${abi}/nacre-supervisor`])
      expect(readFileSync(path.join(cache, copy, file)).equals(readFileSync(supervisor))).toBe(true)
  }, 120_000)
})

describe('@nacre/remote-jobs', () => {
  const PROGRAM = `
    import { execFile } from 'node:child_process'
    import { createRemoteJobs } from '@nacre/remote-jobs'
    import { OptionError } from 'nacre'
    const executeCommand = (command) =>
      new Promise((done) => execFile('sh', ['-c', command], (error, result) => done({ exitCode: error?.code ?? 0, result })))
    const jobs = createRemoteJobs({ process: { executeCommand } }, { jobsRoot: process.env.TMPDIR + '/remote' })
    const { jobId } = await jobs.start({ command: 'echo there; exit 4' })
    const { exitCode } = await jobs.wait(jobId)
    const { raw } = await jobs.read(jobId)
    await jobs.remove(jobId)
    let refusal
    try { createRemoteJobs({}) } catch (error) { refusal = error }
    console.log(JSON.stringify({ exitCode, raw, isRefused: refusal instanceof OptionError }))
  `

  it.each(['node', 'bun'])(
    'runs jobs beside nacre, and shares its error classes, on %s',
    async (runtime) => {
      const beside = path.join(base, `beside-${runtime}`)
      mkdirSync(beside)
      writeFileSync(path.join(beside, 'package.json'), '{ "private": true, "type": "module" }')
      const args = [
        'install',
        '--offline',
        '--no-audit',
        '--no-fund',
        ...Object.values(tarballs),
        companion('remote-jobs'),
      ]
      execFileSync('npm', args, { cwd: beside, env, stdio: ['ignore', 'ignore', 'pipe'] })
      writeFileSync(path.join(beside, 'main.js'), PROGRAM)
      // The stand-in for a remote machine has all programs.
      const options = { cwd: beside, env: { ...env, PATH: `${env.PATH}:${process.env.PATH}` } }
      const { stdout } = await run(path.join(base, 'bin', runtime), ['main.js'], options)
      expect(JSON.parse(stdout)).toEqual({ exitCode: 4, raw: 'there\n', isRefused: true })
    },
    120_000,
  )
})

describe('@nacre/queue', () => {
  it('gives nacre its verbs, and is named where it is not installed', async () => {
    const command = ['node_modules/nacre/dist/cli/main.js', 'queue', 'ls', '--help']
    const { code, stderr } = await inProject('node', ...command.slice(0, -1)).catch((error) => error)
    expect([code, stderr]).toEqual([2, 'nacre: nacre queue needs @nacre/queue: npm install @nacre/queue\n'])
    putCompanion('queue', ['bullmq', 'ioredis'])
    expect((await inProject('node', ...command)).stdout).toContain('list jobs: id, state and command')
    const program =
      "import { JobQueue } from '@nacre/queue'; import { OptionError } from 'nacre'; try { new JobQueue({}) } catch (error) { console.log(error instanceof OptionError, error.message) }"
    const { stdout } = await inProject('node', '--input-type=module', '-e', program)
    expect(stdout).toBe('true new JobQueue needs name and redis\n')
  })
})

describe('@nacre/tools', () => {
  beforeAll(() => putCompanion('tools', ['@xterm']))

  it.each(['node', 'bun'])(
    'runs a command, and shows the screen of a terminal, on %s',
    async (runtime) => {
      const program = `
      import { createTools } from '@nacre/tools'
      import { Sandbox } from 'nacre'
      const tools = createTools(new Sandbox())
      await tools.call('bash', { command: 'echo there; cat', pty: true })
      console.log((await tools.call('output', { screen: true })).text.split('\\n')[1])
      await tools.close()
    `
      writeFileSync(path.join(project, 'tools.js'), program)
      expect((await inProject(runtime, 'tools.js')).stdout).toBe('there\n')
    },
    30_000,
  )
})

describe('@nacre/mcp', () => {
  const words = ['node_modules/nacre/dist/cli/main.js', 'mcp']

  it('gives nacre its verb, and is named where it is not installed', async () => {
    const { code, stderr } = await inProject('node', ...words).catch((error) => error)
    expect([code, stderr]).toEqual([2, 'nacre: nacre mcp needs @nacre/mcp: npm install @nacre/mcp\n'])
    putCompanion('mcp', ['@modelcontextprotocol', '@hono', 'hono', 'zod'])
    expect((await inProject('node', ...words, '--help')).stdout).toContain('serve a shell to MCP clients')
  })

  it.each(['node', 'bun'])('runs a command for a client, on %s', async (runtime) => {
    const server = spawn(path.join(base, 'bin', runtime), ['node_modules/@nacre/mcp/dist/main.js'], {
      cwd: project,
      // Isolated commands have a /tmp of their own, without the links of this test.
      env: { ...env, PATH: '/usr/bin:/bin' },
    })
    const clientInfo = { name: 'raw', version: '1' }
    const messages = [
      {
        id: 1,
        method: 'initialize',
        params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo },
      },
      { method: 'notifications/initialized' },
      { id: 2, method: 'tools/call', params: { name: 'bash', arguments: { command: 'echo there' } } },
    ]
    for (const message of messages) server.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
    let output = ''
    let errors = ''
    server.stderr.on('data', (data) => {
      errors += data
    })
    for await (const data of server.stdout) {
      output += data
      if (output.includes('"id":2')) break
    }
    expect(output, errors).toContain('\\nthere')
    const exited = once(server, 'exit')
    server.stdin.end()
    expect((await exited)[0]).toBe(0)
  })
})

describe('@nacre/compat', () => {
  const words = ['node_modules/nacre/dist/cli/main.js', 'serve', '--e2b', '--daytona']

  it('is named where it is not installed', async () => {
    const { code, stderr } = await inProject('node', ...words).catch((error) => error)
    const message = 'nacre: nacre serve --e2b needs @nacre/compat: npm install @nacre/compat\n'
    expect([code, stderr]).toEqual([2, message])
    putCompanion('compat', ['@fastify', 'ws'])
  })

  it.each(['node', 'bun'])(
    'runs a command with the variables of E2B and Daytona, and code, on %s',
    async (runtime) => {
      const program = `
      const { E2B_API_KEY, E2B_API_URL, DAYTONA_API_KEY, DAYTONA_API_URL } = process.env
      const send = async (url, headers, body) => {
        const reply = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })
        return reply.text()
      }
      const template = { templateID: 'base' }
      const made = JSON.parse(await send(E2B_API_URL + '/sandboxes', { 'x-api-key': E2B_API_KEY }, template))
      const headers = { 'e2b-sandbox-id': made.sandboxID }
      const code = { code: 'echo $((6 * 7))', language: 'bash' }
      console.log(await send(E2B_API_URL + '/execute', headers, code))
      const bearer = { authorization: 'Bearer ' + DAYTONA_API_KEY }
      const { id, toolboxProxyUrl } = JSON.parse(await send(DAYTONA_API_URL + '/sandbox', bearer, {}))
      const run = { command: 'echo $((7 * 7))' }
      console.log(await send(toolboxProxyUrl + '/' + id + '/process/execute', bearer, run))
    `
      writeFileSync(path.join(project, 'compat.mjs'), program)
      const node = path.join(base, 'bin', runtime)
      const { stdout } = await inProject(runtime, ...words, '--isolation', 'none', '--', node, 'compat.mjs')
      expect(stdout).toContain('"text":"42\\n"')
      expect(stdout).toContain('"result":"49\\n"')
    },
  )
})

describe('@nacre/console', () => {
  const nacre = 'node_modules/nacre/dist/cli/main.js'

  it('is named where it is not installed', async () => {
    const { code, stderr } = await inProject('node', nacre, 'record', 'true').catch((error) => error)
    const message = 'nacre: nacre record needs @nacre/console: npm install @nacre/console\n'
    expect([code, stderr]).toEqual([2, message])
    putCompanion('console', ['@xterm'])
  })

  it.each(['node', 'bun'])('records, plays, and serves its page, on %s', async (runtime) => {
    const file = `${runtime}.cast`
    await inProject(runtime, nacre, 'record', '-o', file, 'echo recorded')
    expect((await inProject(runtime, nacre, 'replay', '--print', file)).stdout).toBe('recorded\r\n')
    const program = `
      import { serve } from '@nacre/server'
      import { Sandbox } from 'nacre'
      const sandbox = new Sandbox()
      const serving = await serve(sandbox, { port: 0, console: true })
      const page = await (await fetch(serving.url + '/console')).text()
      const script = await fetch(serving.url + '/' + /src="([^"]+)"/.exec(page)[1])
      console.log(script.status, script.headers.get('content-type'))
      await serving.close()
      await sandbox.destroy()
    `
    writeFileSync(path.join(project, 'console.mjs'), program)
    expect((await inProject(runtime, 'console.mjs')).stdout).toBe('200 text/javascript; charset=utf-8\n')
  })
})

describe('@nacre/fleet', () => {
  beforeAll(() => putCompanion('fleet', ['@kubernetes', 'ws']))

  it.each(['node', 'bun'])(
    'checks options, and shares its error classes with nacre, on %s',
    async (runtime) => {
      const program = `
      import { OptionError, SandboxError, SandboxFleet } from '@nacre/fleet'
      import * as nacre from 'nacre'
      await new SandboxFleet({ kubernetes: { warmPool: 'a' } }).close()
      let refusal
      try { new SandboxFleet({}) } catch (error) { refusal = error }
      const isShared = OptionError === nacre.OptionError && SandboxError === nacre.SandboxError
      console.log(isShared, refusal instanceof OptionError, refusal.message)
    `
      writeFileSync(path.join(project, 'fleet.js'), program)
      expect((await inProject(runtime, 'fleet.js')).stdout).toBe('true true SandboxFleet needs kubernetes\n')
    },
  )
})

describe('@nacre/sandboxd', () => {
  const flags = ['--sandboxd', '--port', '0', '--grpc-port', '0', '--rest-port', '0', '--root', 'workspace']
  const command = ['node_modules/nacre/dist/cli/main.js', 'serve', ...flags]

  it.each(['node', 'bun'])('is named where it is not installed, on %s', async (runtime) => {
    const { code, stderr } = await inProject(runtime, ...command).catch((error) => error)
    const line = 'nacre: --sandboxd needs @nacre/sandboxd: npm install @nacre/sandboxd\n'
    expect([code, stderr]).toEqual([2, line])
  })

  it('is not called missing when only a package that it needs is', async () => {
    putCompanion('sandboxd', ['@fastify', '@grpc'])
    const { code, stderr } = await inProject('node', ...command).catch((error) => error)
    expect(code).not.toBe(0)
    expect(stderr).toContain("'grpc-health-check'")
    expect(stderr).not.toContain('npm install')
  })

  it.each(['node', 'bun'])('listens where it is installed, on %s', async (runtime) => {
    putDependency('grpc-health-check')
    const server = spawn(path.join(base, 'bin', runtime), command, { cwd: project, env })
    try {
      let output = ''
      for await (const data of server.stdout) {
        output += data
        if (output.includes('sandboxd listens on')) break
      }
      const [, port] = /http:\/\/127\.0\.0\.1:(\d+), with the root/.exec(output) ?? []
      const health = await fetch(`http://127.0.0.1:${port}/v1/health`)
      expect(await health.json()).toMatchObject({ status: 'ok' })
    } finally {
      server.kill()
      await once(server, 'exit')
    }
  })
})
