/** `openSandbox` with a real Podman: containers, their files and their ends. Run by `npm run test:engines`. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { type EngineOptions, type EngineSandbox, openSandbox } from 'nacre/engine'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { rejectionOf } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'
import { GRACE, podman, programs, removeAll, shell, USER } from './real-podman.js'

/** The OCI runtime, if not that of the engine. gvisor.test.ts has what is different in gVisor. */
const { NACRE_TEST_RUNTIME: runtime } = process.env
const withRuntime = { ...(runtime !== undefined && { runtime }) }
const runtimeWords = runtime === undefined ? [] : ['--runtime', runtime]
/** What needs namespaces, or is about the processes of this machine. */
const itOnLinux = (runtime === undefined ? it : () => {}) as typeof it
const describeOnLinux = (runtime === undefined ? describe : () => {}) as typeof describe
const bun = path.join(path.dirname(path.dirname(__dirname)), 'node_modules/.bin')

let place: string
let project: string
const opened: EngineSandbox[] = []
const { getuid, getgid } = process

beforeAll(() => {
  process.env.PATH = [programs, bun, process.env.PATH].join(path.delimiter)
  Object.assign(process, { getuid: () => USER, getgid: () => USER })
})

beforeEach(() => {
  place = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'nacre-podman-')))
  process.env.XDG_CACHE_HOME = path.join(place, 'cache')
  project = path.join(place, 'Ein Projekt ä (1)')
  mkdirSync(project)
  writeFileSync(path.join(project, 'file'), 'text\n')
  for (const name of [project, path.join(project, 'file')]) chownSync(name, USER, USER)
})

afterEach(async () => {
  await Promise.all(opened.splice(0).map((sandbox) => sandbox.destroy()))
  await holds(removeAll)
  rmSync(place, { recursive: true, force: true })
})

afterAll(() => Object.assign(process, { getuid, getgid }))

async function open(options: EngineOptions = {}): Promise<EngineSandbox> {
  const sandbox = await openSandbox({
    where: 'container',
    engine: 'podman',
    cwd: project,
    grace: GRACE,
    pull: 'never',
    ...withRuntime,
    ...options,
  })
  opened.push(sandbox)
  return sandbox
}

function stateOf(name: string): string {
  return podman('inspect', '--format', '{{.State.Status}}', name)
}

describe('a container', () => {
  it('has the project at the same path, and its files belong to this user outside', async () => {
    const sandbox = await open()
    expect(await shell(sandbox, 'pwd; cat file; id -u; id -g; echo $HOME; touch ~/x && echo home')).toBe(
      `${project}\ntext\n${USER}\n${USER}\n/home/root-501\nhome`,
    )
    await sandbox.exec('mkdir "sub ü" && echo made >"sub ü/ö"')
    await sandbox.files.write('sub ü/written', 'too')
    for (const name of ['sub ü', 'sub ü/ö', 'sub ü/written']) {
      const { uid, gid } = statSync(path.join(project, name))
      expect([name, uid, gid]).toEqual([name, USER, USER])
    }
    expect(readFileSync(path.join(project, 'sub ü/ö'), 'utf8')).toBe('made\n')
  })

  itOnLinux('gives commands none of its rights, and can isolate them', async () => {
    const sandbox = await open({ isolation: 'workspace' })
    const status = await shell(sandbox, 'grep -E "^(CapEff|NoNewPrivs)" /proc/self/status')
    expect(status).toBe('CapEff:\t0000000000000000\nNoNewPrivs:\t1')
    const { isolation } = await sandbox.capabilities()
    expect(isolation).toMatchObject({ filesystem: 'namespace', network: 'namespace', processes: 'namespace' })
    expect(await shell(sandbox, 'touch ~/x here && echo written')).toBe('written')
    const { jobId } = await sandbox.jobs.start({ command: 'echo from a job >written' })
    expect((await sandbox.jobs.wait(jobId)).exitCode).toBe(0)
    expect(await shell(sandbox, 'cat written')).toBe('from a job')
    for (const command of ['touch /etc/x', 'kill -0 1', 'cat /proc/1/environ', 'mount -t tmpfs x /mnt'])
      expect((await sandbox.exec(command)).exitCode, command).not.toBe(0)
  })

  itOnLinux('gives commands a home of its own where the usual one would have the project', async () => {
    const { userInfo } = os
    const name = `nacre-${process.pid}`
    const below = path.join('/home', name, 'project')
    mkdirSync(below, { recursive: true })
    chownSync(below, USER, USER)
    os.userInfo = (() => ({ ...userInfo(), username: name })) as typeof userInfo
    try {
      const sandbox = await open({ cwd: below, isolation: 'read-only' })
      const said = await shell(sandbox, 'echo $HOME; touch ~/x && echo written')
      expect(said).toBe(`/home/${name}-${USER}\nwritten`)
      expect((await sandbox.exec('touch x')).exitCode).not.toBe(0)
    } finally {
      os.userInfo = userInfo
      rmSync(path.dirname(below), { recursive: true })
    }
  })

  itOnLinux('has copy-on-write workspaces', async () => {
    const sandbox = await open()
    expect((await sandbox.capabilities()).workspace).toMatchObject({ copyOnWrite: true })
  })

  it('keeps own directories inside', async () => {
    const first = await open({ own: ['node_modules', 'a/target'] })
    await shell(first, 'touch node_modules/inside a/target/inside')
    await first.stop()
    const second = await open({ own: ['node_modules', 'a/target'] })
    expect(await shell(second, 'find node_modules a/target -type f')).toBe(
      'node_modules/inside\na/target/inside',
    )
    expect(readdirSync(path.join(project, 'node_modules'))).toEqual([])
    expect(readdirSync(path.join(project, 'a/target'))).toEqual([])
  })

  it('works without a network, has no listener, and its ports can be forwarded', async () => {
    const sandbox = await open({ network: 'none' })
    expect(await shell(sandbox, 'tail -n +2 /proc/net/tcp /proc/net/tcp6 | grep -c : || :')).toBe('0')
    const script =
      'require("http").createServer((q, r) => r.end(q.url)).listen(3111, "127.0.0.1", () => console.log("up"))'
    const server = await sandbox.startProcess(`node -e '${script}'`)
    await server.waitForLog('up')
    const { url } = await sandbox.forward(3111)
    expect(url).toBe('http://127.0.0.1:3111')
    expect(await (await fetch(`${url}/x`)).text()).toBe('/x')
    expect(podman('port', sandbox.container?.name ?? '')).toBe('')
  })

  it('is one for five clients at once, each with its own sessions', async () => {
    const sandboxes = await Promise.all(Array.from({ length: 5 }, () => open()))
    expect(new Set(sandboxes.map(({ container }) => container?.name)).size).toBe(1)
    expect(podman('ps', '--all', '--quiet').split('\n')).toHaveLength(1)
    const values = sandboxes.map(async (sandbox, n) => {
      await sandbox.exec(`v=${n}`)
      return shell(sandbox, 'echo $v')
    })
    expect(await Promise.all(values)).toEqual(['0', '1', '2', '3', '4'])
  })

  it('stops after its grace, and starts again with its files', async () => {
    const first = await open()
    const name = first.container?.name ?? ''
    await shell(first, 'echo kept >~/kept')
    const { jobId } = await first.jobs.start({ command: 'sleep 2' })
    await first.destroy()
    expect(stateOf(name)).toBe('running')
    await holds(() => stateOf(name) === 'exited')
    const second = await open()
    expect(await shell(second, 'cat ~/kept')).toBe('kept')
    expect((await second.jobs.wait(jobId)).exitCode).toBe(0)
  })

  it('runs an image without Node.js', async () => {
    const steps: string[] = []
    const sandbox = await open({ image: 'localhost/debian:12', onProgress: (step) => steps.push(step) })
    expect(await shell(sandbox, 'x=5; command -v node || echo $x')).toBe('5')
    expect(steps).toContain('fetching Bun')
    // Bun reads settings where it starts, and would run what commands have written there as root.
    await shell(
      sandbox,
      `echo 'require("node:fs").writeFileSync("/tmp/preloaded", "")' >~/x.js; echo "preload = ['$HOME/x.js']" | tee bunfig.toml >~/.bunfig.toml; echo LOADED=1 >.env`,
    )
    const next = await open({ image: 'localhost/debian:12' })
    expect(await shell(next, 'ls /tmp/preloaded 2>&1 >/dev/null | wc -l; echo "$LOADED$HOME"')).toMatch(
      /^1\n\/home\/[a-z]+(-501)?$/,
    )
  })

  it('runs no program as root that commands could write, and nothing that variables of the image name', async () => {
    const image = 'localhost/hostile:1'
    podman('run', '--name', 'base', 'node:22', 'mkdir', '-m', '1777', '/first')
    const archive = path.join(place, 'base.tar')
    podman('export', '--output', archive, 'base')
    podman('import', archive, 'localhost/base:1')
    rmSync(archive)
    const lines = [
      'FROM localhost/base:1',
      'ENV PATH=/first:/usr/local/bin:/usr/bin:/bin',
      'ENV BASH_ENV=/first/variables NODE_OPTIONS=--require=/first/env.js',
      'HEALTHCHECK CMD ./check',
      'STOPSIGNAL SIGQUIT',
    ]
    writeFileSync(path.join(place, 'Dockerfile'), lines.join('\n'))
    const policy = path.join(path.dirname(programs), 'policy.json')
    podman('build', '--signature-policy', policy, '--pull=never', '--format', 'docker', '--tag', image, place)
    const first = await open({ image })
    const write = `
      unset BASH_ENV NODE_OPTIONS
      for name in bash sh node ls cut grep stat chown mkdir cat sleep env; do
        program=$(PATH=/usr/local/bin:/usr/bin:/bin command -v $name) || exit
        printf '#!/bin/sh\n[ "$(/usr/bin/id -u)" != 0 ] || echo %s >>/first/ran\nexec %s "$@"\n' $name $program >/first/$name
      done
      echo '[ "$(/usr/bin/id -u)" != 0 ] || echo variable >>/first/ran' >/first/variables
      echo 'process.getuid() || require("fs").appendFileSync("/first/ran", "variable")' >/first/env.js
      /bin/chmod 755 /first/*`
    await shell(first, write)
    const second = await open({ image })
    expect(second.container?.name).toBe(first.container?.name)
    expect(
      await shell(second, '[ -e /first/ran ] || echo none; echo "$PATH"; command -v node; echo "$BASH_ENV"'),
    ).toBe(['none', '/first:/usr/local/bin:/usr/bin:/bin', '/first/node', '/first/variables'].join('\n'))
    await first.stop()
    const third = await open({ image })
    expect(await shell(third, 'ls /first/ran 2>/dev/null; env | grep -E "^(NODE_OPTIONS|NACRE|BUN)"')).toBe(
      'NODE_OPTIONS=--require=/first/env.js',
    )
    // The programs do say when root runs them.
    podman('exec', '--user', '0:0', third.container?.name ?? '', 'bash', '-c', ':')
    expect(await shell(third, 'sort -u /first/ran')).toBe('bash\nvariable')
    expect(podman('inspect', image)).toContain('./check')
    const config = podman('inspect', '--format', '{{json .Config}}', third.container?.name ?? '')
    const { Healthcheck, StopSignal } = JSON.parse(config)
    expect(Healthcheck?.Test ?? ['NONE']).toEqual(['NONE'])
    expect(StopSignal).toBe(15)
  }, 180_000)

  it('has the mounts, and those that are read-only', async () => {
    const other = path.join(place, 'other: one')
    mkdirSync(other)
    writeFileSync(path.join(other, 'x'), 'there\n')
    const sandbox = await open({ mounts: [{ source: other, readOnly: true }] })
    expect(await shell(sandbox, `cat '${other}/x'`)).toBe('there')
    expect((await sandbox.exec(`touch '${other}/y'`)).exitCode).not.toBe(0)
  })
})

describe('the errors', () => {
  it('name an image without bash and a missing one, and leave no container', async () => {
    expect(await rejectionOf(open({ image: 'localhost/busybox:1' }))).toMatchObject({
      code: 'IMAGE_WITHOUT_BASH',
    })
    expect(await rejectionOf(open({ image: 'localhost/none:1' }))).toMatchObject({
      code: 'IMAGE_UNAVAILABLE',
    })
    const pulled = open({ image: 'registry.invalid/none:1', pull: 'missing' })
    expect(await rejectionOf(pulled)).toMatchObject({ code: 'IMAGE_UNAVAILABLE' })
    expect(await rejectionOf(open({ network: 'nosuch' }))).toMatchObject({ code: 'CONTAINER_FAILED' })
    expect(podman('ps', '--all', '--quiet')).toBe('')
  })

  it('name a directory that the engine does not share', async () => {
    // As an engine in a virtual machine does: it mounts a directory of that machine, which is empty.
    const empty = path.join(place, 'empty')
    const bin = path.join(place, 'bin')
    for (const name of [empty, bin]) mkdirSync(name)
    const script = `#!/bin/bash\nexec '${programs}/podman' "\${@/#'${project}:'/'${empty}:'}"\n`
    writeFileSync(path.join(bin, 'podman'), script, { mode: 0o755 })
    const before = process.env.PATH
    process.env.PATH = `${bin}:${before}`
    try {
      expect(await rejectionOf(open())).toMatchObject({ code: 'MOUNT_MISSING' })
      // An empty one looks the same.
      rmSync(path.join(project, 'file'))
      expect(await rejectionOf(open())).toMatchObject({ code: 'MOUNT_MISSING' })
      expect(readdirSync(project)).toEqual([])
    } finally {
      process.env.PATH = before
    }
  })

  it('name a lost container, and a new call starts it again', async () => {
    const sandbox = await open()
    const pending = rejectionOf(sandbox.exec('sleep 60'))
    podman('rm', '--force', '--time', '0', sandbox.container?.name ?? '')
    expect(await pending).toMatchObject({ code: 'SANDBOX_LOST' })
    expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({ code: 'SANDBOX_LOST' })
    expect(await shell(await open(), 'echo new')).toBe('new')
  })
})

describe('a container that is kept', () => {
  it('is set up once by root, for all clients', async () => {
    const setup = 'id -u >>/set-up; pwd >>/set-up; sleep 0.5; echo done >>/set-up'
    const sandboxes = await Promise.all([1, 2, 3].map(() => open({ setup })))
    for (const sandbox of sandboxes) expect(await shell(sandbox, 'cat /set-up')).toBe(`0\n${project}\ndone`)
    await sandboxes[0]?.stop()
    expect(await shell(await open({ setup }), 'cat /set-up')).toBe(`0\n${project}\ndone`)
  })

  it('is set up without the rights of the server, and with the variables of the image', async () => {
    const setup =
      'grep -E "^Cap(Eff|Bnd)" /proc/self/status >/set-up; echo "$PATH" >>/set-up; env | grep -c NACRE >>/set-up || :'
    const sandbox = await open({ setup })
    const [effective = '', bounding = '', search, count] = (await shell(sandbox, 'cat /set-up')).split('\n')
    for (const line of [effective, bounding]) {
      const rights = BigInt(`0x${line.split('\t')[1]}`)
      expect(
        [0n, 12n, 19n, 21n].map((bit) => (rights >> bit) & 1n),
        line,
      ).toEqual([1n, 0n, 0n, 0n])
    }
    expect([search, count]).toEqual([await shell(sandbox, 'echo "$PATH"'), '0'])
  })

  it('is removed when its set-up is aborted', async () => {
    const controller = new AbortController()
    const opening = rejectionOf(
      open({ setup: 'setsid sleep 600 & touch begun; sleep 600', signal: controller.signal }),
    )
    await holds(() => readdirSync(project).includes('begun'))
    controller.abort()
    expect(await opening).toMatchObject({ name: 'AbortError' })
    expect(podman('ps', '--all', '--quiet')).toBe('')
  })

  it('ends its set-up with the program', async () => {
    const program = `
      import { openSandbox } from 'nacre/engine'
      await openSandbox(JSON.parse(process.argv[1]))
    `
    const setup = '[ -e begun ] && exit; setsid sleep 600 & touch begun; sleep 600'
    const options = {
      ...{ where: 'container', engine: 'podman', cwd: project, grace: GRACE, pull: 'never', setup },
      ...withRuntime,
    }
    const host = spawn('node', ['--input-type=module', '-e', program, JSON.stringify(options)], {
      stdio: 'inherit',
      cwd: path.dirname(path.dirname(__dirname)),
    })
    await holds(() => readdirSync(project).includes('begun'))
    host.kill('SIGKILL')
    await holds(() => podman('ps', '--quiet') === '')
    // The ids of this user are part of the name.
    Object.assign(process, { getuid, getgid })
    try {
      expect(await shell(await open({ setup }), 'echo there')).toBe('there')
      expect(podman('ps', '--all', '--quiet').split('\n')).toHaveLength(1)
    } finally {
      Object.assign(process, { getuid: () => USER, getgid: () => USER })
    }
  })

  it('is removed when its set-up fails', async () => {
    const error = await rejectionOf(open({ setup: 'echo broken >&2; exit 3' }))
    expect(error).toMatchObject({ code: 'CONTAINER_FAILED' })
    expect((error as Error).message).toMatch(/exit code 3\nbroken$/)
    expect(podman('ps', '--all', '--quiet')).toBe('')
  })

  it('that was stopped during its set-up is replaced', async () => {
    const setup = 'echo >>begun; [ "$(wc -l <begun)" -gt 1 ] || sleep 600'
    const first = open({ setup })
    await holds(() => readdirSync(project).includes('begun'))
    podman('stop', '--all', '--time', '0')
    expect(await shell(await first, 'wc -l <begun')).toBe('2')
  })

  it('is replaced by a fresh one', async () => {
    const first = await open()
    await shell(first, 'touch ~/kept')
    expect(await shell(await open(), 'find ~ -name kept')).toMatch(/kept$/)
    expect(await shell(await open({ fresh: true }), 'find ~ -name kept')).toBe('')
    expect(await rejectionOf(first.exec('true'))).toMatchObject({ code: 'SANDBOX_LOST' })
  })

  itOnLinux('has a repository, whose programs isolated commands cannot change', async () => {
    const git = (...args: string[]) =>
      execFileSync('git', ['-c', 'safe.directory=*', '-C', project, ...args], { stdio: 'ignore' })
    git('init', '-q')
    execFileSync('chown', ['-R', `${USER}:${USER}`, project])
    const sandbox = await open({ isolation: 'workspace' })
    expect(await shell(sandbox, 'echo one >.git/objects/x && cat .git/objects/x')).toBe('one')
    const config = path.join(project, '.git/config')
    const before = readFileSync(config, 'utf8')
    for (const command of [
      'echo x >.git/hooks/pre-commit',
      'mv .git other && mkdir -p .git/hooks && echo x >.git/hooks/pre-commit',
    ])
      expect((await sandbox.exec(command)).exitCode, command).not.toBe(0)
    // The session has a copy of the configuration.
    await sandbox.exec('echo "[core] hooksPath = /tmp" >>.git/config; git config core.pager /tmp/x')
    expect(readFileSync(config, 'utf8')).toBe(before)
    expect(readdirSync(path.join(project, '.git/hooks'))).not.toContain('pre-commit')
  })
})

describe('the command line', () => {
  const main = path.join(path.dirname(path.dirname(__dirname)), 'dist/cli/main.js')
  const nacre = (...words: string[]) =>
    execFileSync('node', [main, ...words], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

  it('makes, enters, examines and removes the containers of nacre, and no others', () => {
    const own = nacre('up', '--engine', 'podman', '--cwd', project, ...runtimeWords).trim()
    const exec = ['exec', '--container', '--engine', 'podman', '--cwd', project, ...runtimeWords]
    expect(nacre(...exec, 'cat file; [ -e /opt/nacre/inside.mjs ] && echo inside')).toBe('text\ninside\n')
    // As if its image had been made from the container, with the labels.
    const labels = ['--label', 'dev.nacre=1', '--label', `dev.nacre.name=${own}`]
    const options = ['--detach', '--entrypoint', 'sleep', '--name', 'other']
    podman('run', ...options, ...labels, 'localhost/debian:12', '600')
    nacre(...exec, 'true')
    const { engines, containers } = JSON.parse(nacre('doctor', '--json'))
    expect(engines).toContainEqual(expect.objectContaining({ level: 'ok', subject: 'engine podman' }))
    expect(containers).toMatchObject([
      {
        name: own,
        engine: 'podman',
        image: 'node:22',
        capabilities: { shell: expect.stringContaining('bash') },
      },
    ])
    expect(nacre('down', '--all')).toBe(`removed ${own} (podman, node:22) of ${project}\n`)
    expect(podman('ps', '--all', '--format', '{{.Names}}')).toBe('other')
  })
})

itOnLinux('the MCP server runs commands in a container', async () => {
  const root = path.dirname(path.dirname(__dirname))
  const transport = new StdioClientTransport({
    command: 'node',
    args: [path.join(root, 'packages/mcp/dist/main.js'), '--container', 'podman', '--root'],
    cwd: project,
    env: Object.fromEntries(
      ['PATH', 'XDG_CACHE_HOME', 'NACRE_NATIVE'].map((name) => [name, process.env[name] ?? '']),
    ),
    stderr: 'inherit',
  })
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(transport)
  try {
    const bash = async (command: string) => {
      const { content } = await client.callTool({ name: 'bash', arguments: { command } })
      return (content as { text: string }[])[0]?.text.split('\n').slice(1).join('\n')
    }
    expect(await bash('cat file; x=1; touch made; id -u')).toBe('text\n0')
    expect(await bash('echo $x; echo no >/etc/made; [ -e /etc/made ] || echo protected')).toMatch(
      /^1\n.*\nprotected$/,
    )
  } finally {
    await client.close()
  }
})

describeOnLinux('nothing runs after', () => {
  const PROGRAM = `
    import { openSandbox } from 'nacre/engine'
    Object.assign(process, { getuid: () => ${USER}, getgid: () => ${USER} })
    const sandbox = await openSandbox(JSON.parse(process.argv[1]))
    await sandbox.startProcess('setsid sleep 987 & sleep 986')
    await sandbox.startProcess('trap "" HUP TERM; while :; do sleep 985; done', { pty: { cols: 80, rows: 24 } })
    void sandbox.exec('(trap "" TERM HUP INT; sleep 984 & touch ready; sleep 983)').catch(() => {})
    await sandbox.exec('until [ -e ready ]; do :; done', { sessionId: (await sandbox.createSession()).id })
    console.log(sandbox.container.name)
    setInterval(() => {}, 1000)
  `

  it.each([['the program'], ["the engine's program"], ['both']])('SIGKILL of %s', async (which) => {
    const options = { where: 'container', engine: 'podman', cwd: project, grace: GRACE, pull: 'never' }
    const args = ['--input-type=module', '-e', PROGRAM, JSON.stringify(options)]
    const host = spawn('node', args, {
      stdio: ['ignore', 'pipe', 'inherit'],
      cwd: path.dirname(path.dirname(__dirname)),
    })
    const [data] = await once(host.stdout, 'data')
    const name = String(data).trim()
    const root = podman('inspect', '--format', '{{.State.Pid}}', name)
    const namespace = namespaceOf(root)
    const clients = readdirSync('/proc').filter((pid) => parentOf(pid) === host.pid)
    expect(inside(root, namespace).length).toBeGreaterThan(5)
    const killed = which === 'the program' ? [] : clients.map(Number)
    if (which !== "the engine's program") killed.push(host.pid ?? 0)
    for (const pid of killed) process.kill(pid, 'SIGKILL')
    await until(
      () => inside(root, namespace).length === 0 || undefined,
      () => `left: ${inside(root, namespace)}`,
    )
    await holds(() => stateOf(name) === 'exited')
    host.kill('SIGKILL')
  })

  function namespaceOf(pid: string): string {
    try {
      return readlinkSync(`/proc/${pid}/ns/pid`)
    } catch {
      return ''
    }
  }

  /** The processes of a container, without its init, as seen from outside. */
  function inside(root: string, namespace: string): string[] {
    return readdirSync('/proc').filter(
      (pid) => /^\d+$/.test(pid) && pid !== root && namespaceOf(pid) === namespace,
    )
  }

  function parentOf(pid: string): number | undefined {
    try {
      return Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1])
    } catch {
      return undefined
    }
  }
})
