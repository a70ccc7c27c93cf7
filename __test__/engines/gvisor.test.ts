/**
 * `openSandbox` with gVisor as the runtime of a real Podman: what works inside, what is refused, and what nothing survives or
 * leaves. Run by `npm run test:engines`. The gVisor is Debian's, of 2022, without child subreapers.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { type EngineOptions, type EngineSandbox, openSandbox } from 'nacre/engine'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { rejectionOf } from '../helpers/thrown.js'
import { holds } from '../helpers/until.js'
import { GRACE, podman, programs, removeAll, shell, USER } from './real-podman.js'

const ROUNDS = Number(process.env.NACRE_TEST_ROUNDS ?? 2)
const root = path.dirname(path.dirname(__dirname))
const { getuid, getgid } = process

let place: string
let project: string
const opened: EngineSandbox[] = []

beforeAll(() => {
  process.env.PATH = [programs, process.env.PATH].join(path.delimiter)
  Object.assign(process, { getuid: () => USER, getgid: () => USER })
})

beforeEach(() => {
  place = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'nacre-gvisor-')))
  process.env.XDG_CACHE_HOME = path.join(place, 'cache')
  project = path.join(place, 'project')
  mkdirSync(project)
  chownSync(project, USER, USER)
})

afterEach(async () => {
  await Promise.all(opened.splice(0).map((sandbox) => sandbox.destroy()))
  await holds(removeAll)
  rmSync(place, { recursive: true, force: true })
})

afterAll(() => Object.assign(process, { getuid, getgid }))

const common = () => ({
  ...({ where: 'container', engine: 'podman', runtime: 'runsc', pull: 'never' } as const),
  ...{ cwd: project, grace: GRACE },
})

async function open(options: EngineOptions = {}): Promise<EngineSandbox> {
  const sandbox = await openSandbox({ ...common(), ...options })
  opened.push(sandbox)
  return sandbox
}

/** The command lines of all processes in a container; none if it does not run. */
function inside(name: string): string[] {
  const script = 'for file in /proc/[0-9]*/cmdline; do tr "\\0" " " <$file; echo; done'
  const words = ['exec', '--user', '0:0', name, 'bash', '-c', script]
  const { stdout } = spawnSync(path.join(programs, 'podman'), words, { encoding: 'utf8' })
  return stdout.split('\n').filter((line) => line !== '')
}

const naps = (name: string) => inside(name).filter((line) => /^sleep 9\d\d/.test(line))

describe('in gVisor', () => {
  it('commands keep their state, in plain mode, and the capabilities say why', async () => {
    const sandbox = await open()
    await sandbox.exec('x=1; f() { echo f; }; mkdir sub; cd sub')
    expect(await shell(sandbox, 'echo $x; f; pwd; id -u; uname -r')).toBe(
      `1\nf\n${project}/sub\n${USER}\n4.4.0`,
    )
    expect((await sandbox.exec('kill -9 $$')).signal).toBe('SIGKILL')
    const { engine, notes, isolation, workspace } = await sandbox.capabilities()
    expect([engine, workspace.copyOnWrite]).toEqual(['plain', false])
    expect(notes.join('\n')).toMatch(/child subreapers are missing .*pid namespace/)
    expect(isolation).toMatchObject({ filesystem: 'none', network: 'none', processes: 'none' })
  })

  it('isolation, workspaces and limits of groups are refused with the reason', async () => {
    const isolated = await open({ isolation: 'workspace' })
    const refused = await rejectionOf(isolated.exec('true'))
    expect(refused).toMatchObject({
      code: 'ISOLATION_UNSUPPORTED',
      message: expect.stringMatching(/seccomp/),
    })
    const sandbox = await open()
    const limited = sandbox.startProcess('true', { limits: { memory: 1e8 } })
    expect(await rejectionOf(limited)).toMatchObject({ code: 'LIMIT_UNSUPPORTED' })
  })

  it('processes have logs, terminals and ports, and jobs end', async () => {
    const sandbox = await open({ network: 'none' })
    const terminal = await sandbox.startProcess('stty size; read x; echo got $x', {
      pty: { cols: 90, rows: 33 },
    })
    await terminal.waitForLog('33 90')
    await terminal.write('abc\n')
    await terminal.waitForLog('got abc')
    const script =
      'require("http").createServer((q, r) => r.end(q.url)).listen(3111, "127.0.0.1", () => console.log("up"))'
    const server = await sandbox.startProcess(`node -e '${script}'`)
    await server.waitForLog('up')
    const { url } = await sandbox.forward(3111)
    expect(await (await fetch(`${url}/x`)).text()).toBe('/x')
    const { jobId } = await sandbox.jobs.start({ command: 'echo from a job >written; exit 3' })
    expect((await sandbox.jobs.wait(jobId)).exitCode).toBe(3)
    expect(await sandbox.files.read('written')).toBe('from a job\n')
  })

  it('a kill ends the whole tree of a command, a process or a job, and nothing else', async () => {
    const sandbox = await open()
    const name = sandbox.container?.name ?? ''
    const escapees = (nap: number) =>
      `(env -i setsid sleep ${nap} >/dev/null 2>&1 &); setsid sleep ${nap + 1} & sleep ${nap + 2}`
    await sandbox.exec('(env -i setsid sleep 900 >/dev/null 2>&1 &)')
    const other = await sandbox.startProcess('(env -i setsid sleep 901 >/dev/null 2>&1 &); sleep 902')
    const late = await rejectionOf(sandbox.exec(escapees(910), { timeout: 3000, forceKillAfterDelay: 300 }))
    expect(late).toMatchObject({ code: 'COMMAND_TIMEOUT' })
    const killed = await sandbox.startProcess(escapees(920))
    await holds(() => naps(name).filter((line) => line.includes(' 92')).length === 3)
    await killed.kill()
    const { jobId } = await sandbox.jobs.start({ command: escapees(930) })
    await holds(() => naps(name).filter((line) => line.includes(' 93')).length === 3)
    await sandbox.jobs.cancel(jobId)
    expect((await sandbox.jobs.wait(jobId)).reason).toBe('cancelled')
    await holds(() => naps(name).length === 3)
    expect(
      naps(name)
        .map((line) => line.trim())
        .sort(),
    ).toEqual(['sleep 900', 'sleep 901', 'sleep 902'])
    expect(other.status).toBe('running')
  }, 120_000)

  it('a killed supervisor, or a killed init of its namespace, loses no state and leaves nothing', async () => {
    const sandbox = await open()
    const name = sandbox.container?.name ?? ''
    for (let round = 0; round < ROUNDS; round++) {
      await sandbox.exec(`x=${round}; (env -i setsid sleep 940 >/dev/null 2>&1 &)`)
      expect(naps(name)).toHaveLength(1)
      // Its parents: the init of the namespace, and the supervisor.
      const find =
        'for d in /proc/[0-9]*; do grep -qs "^sleep" $d/cmdline && awk "/^PPid/{print \\$2}" $d/status; done; :'
      const init = podman('exec', '--user', '0:0', name, 'bash', '-c', find)
      const of = `awk "/^PPid/{print \\$2}" /proc/${init}/status`
      const supervisor = podman('exec', '--user', '0:0', name, 'bash', '-c', of)
      podman('exec', '--user', '0:0', name, 'bash', '-c', `kill -9 ${round % 2 ? init : supervisor}`)
      await holds(() => naps(name).length === 0)
      expect(await shell(sandbox, 'echo $x')).toBe(String(round))
    }
  }, 300_000)

  const PROGRAM = `
    import { openSandbox } from 'nacre/engine'
    Object.assign(process, { getuid: () => ${USER}, getgid: () => ${USER} })
    const sandbox = await openSandbox(JSON.parse(process.argv[1]))
    await sandbox.startProcess('(env -i setsid sleep 987 >/dev/null 2>&1 &); sleep 986')
    await sandbox.startProcess('trap "" HUP TERM; while :; do sleep 985; done', { pty: { cols: 80, rows: 24 } })
    void sandbox.exec('(trap "" TERM HUP INT; sleep 984 & touch ready; sleep 983)').catch(() => {})
    await sandbox.exec('until [ -e ready ]; do :; done', { sessionId: (await sandbox.createSession()).id })
    console.log(sandbox.container.name)
    setInterval(() => {}, 1000)
  `

  it.each([['the program'], ["the engine's program"], ['both']])(
    'nothing runs after SIGKILL of %s',
    async (which) => {
      for (let round = 0; round < ROUNDS; round++) {
        const args = ['--input-type=module', '-e', PROGRAM, JSON.stringify(common())]
        const host = spawn('node', args, { stdio: ['ignore', 'pipe', 'inherit'], cwd: root })
        const [data] = await once(host.stdout, 'data')
        const name = String(data).trim()
        expect(naps(name).length).toBeGreaterThan(4)
        const clients = readdirSync('/proc').filter((pid) => parentOf(pid) === host.pid)
        const killed = which === 'the program' ? [] : clients.map(Number)
        if (which !== "the engine's program") killed.push(host.pid ?? 0)
        for (const pid of killed) process.kill(pid, 'SIGKILL')
        await holds(() => naps(name).length === 0)
        host.kill('SIGKILL')
        await holds(() => podman('inspect', '--format', '{{.State.Status}}', name) === 'exited')
        rmSync(path.join(project, 'ready'))
      }
    },
    60_000 * ROUNDS,
  )

  function parentOf(pid: string): number | undefined {
    try {
      return Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1])
    } catch {
      return undefined
    }
  }
})

it('the MCP server says that commands need --isolation none there, and runs them with it', async () => {
  const connect = async (...words: string[]) => {
    const main = path.join(root, 'packages/mcp/dist/main.js')
    const transport = new StdioClientTransport({
      command: 'node',
      args: [main, '--container', 'podman', '--runtime', 'runsc', '--root', ...words],
      cwd: project,
      env: Object.fromEntries(
        ['PATH', 'XDG_CACHE_HOME', 'NACRE_NATIVE'].map((name) => [name, process.env[name] ?? '']),
      ),
      stderr: 'pipe',
    })
    const said: string[] = []
    transport.stderr?.on('data', (data) => said.push(String(data)))
    const client = new Client({ name: 'test', version: '1' })
    try {
      await client.connect(transport)
      const { content } = await client.callTool({ name: 'bash', arguments: { command: 'uname -r' } })
      return (content as { text: string }[])[0]?.text ?? ''
    } catch {
      return said.join('')
    } finally {
      await client.close()
    }
  }
  expect(await connect()).toMatch(
    /isolation cannot be enforced .*with --isolation none, commands run without it/s,
  )
  expect(await connect('--isolation', 'none')).toContain('4.4.0')
}, 120_000)

describe('root of the guest', () => {
  /** Each prints ESCAPED or the secret if it reaches the machine. */
  const ATTEMPTS: Record<string, string> = {
    'reads a file of the machine by its path': 'cat "$SECRET"',
    'reads it through the root of init': 'cat "/proc/1/root$SECRET"',
    'reads it by a link in the project': 'ln -s "$SECRET" link && cat link',
    'reads it by a relative link': 'ln -s ../secret up && cat up; cat ../secret',
    'reads it after a chroot': `perl -e 'mkdir "jail"; chroot "jail"; chdir ".." for 1 .. 50; chroot "."; open F, "<", $ENV{SECRET} and print <F>'`,
    'reads it by a file handle': `perl -e '$h = pack("II q", 8, 1, 2); $d = syscall(304, 3, $h, 0); print "ESCAPED" if $d >= 0 && open(F, "<", "/proc/self/fd/$d/$ENV{SECRET}")'`,
    'mounts the disk of the machine':
      'for d in vda vda1 sda sda1 nvme0n1 dm-0; do mknod /tmp/$d b 254 0; mount /tmp/$d /mnt && cat "/mnt$SECRET"; done',
    'reads the disk of the machine':
      'mknod /tmp/disk b 254 0; mknod /tmp/disk2 b 253 0; head -c 4096 /tmp/disk /tmp/disk2 | grep -q . && echo ESCAPED',
    'reads the memory of the machine':
      'mknod /tmp/mem c 1 1; head -c 16 /tmp/mem /dev/mem /proc/kcore | grep -q . && echo ESCAPED',
    'opens the virtualization of the machine':
      'mknod /tmp/kvm c 10 232; [ -c /tmp/kvm ] && exec 9<>/tmp/kvm && echo ESCAPED',
    'sees a process of the machine': 'cat /proc/[0-9]*/environ | tr "\\0" "\\n" | grep ^VICTIM_SECRET=',
    'signals a process of the machine': 'kill -0 "$VICTIM" && echo ESCAPED',
    'traces a process of the machine': `perl -e 'print "ESCAPED" if syscall(101, 16, 0 + $ENV{VICTIM}, 0, 0) == 0'`,
    'enters the namespaces of the machine': 'nsenter -t 1 -m -p cat "$SECRET"',
    'mounts in the namespace of the machine':
      'mount -t proc proc /mnt && cat "/mnt/1/root$SECRET"; cat /mnt/$VICTIM/environ',
    'loads a module': `perl -e 'print "ESCAPED" if syscall(175, "\\0" x 64, 64, "") == 0'`,
    'loads a program into the kernel': `perl -e 'print "ESCAPED" if syscall(321, 0, pack("IIII", 2, 4, 8, 1), 16) >= 0'`,
    'sets a helper of the kernel':
      'for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /sys/kernel/uevent_helper; do echo "|$OUT/x" >$f && grep -q "$OUT" $f && echo ESCAPED; done',
    'reboots the machine': 'echo b >/proc/sysrq-trigger && echo ESCAPED',
    'sets the clock': 'date -s 2001-01-01 >/dev/null && echo ESCAPED',
    'reaches a server of the machine': `(exec 9<>/dev/tcp/127.0.0.1/$PORT) && echo ESCAPED`,
    'reaches a socket of the machine': `perl -MIO::Socket::UNIX -e 'print "ESCAPED" if IO::Socket::UNIX->new(Peer => $ENV{SOCKET})'`,
    'reaches an abstract socket of the machine': `perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); print "ESCAPED" if connect(S, pack("S a*", 1, "\\0nacre-gvisor-" . $ENV{VICTIM}))'`,
    'changes the files of nacre':
      'echo x >>/opt/nacre/inside.mjs && echo ESCAPED; mount -o remount,rw /opt/nacre && echo x >>/opt/nacre/inside.mjs && echo ESCAPED',
    'makes a program of the project run as root outside': 'cp /bin/bash suid && chmod 4755 suid && exit 0',
  }

  it('makes no attempt that reaches the machine', async () => {
    const secret = path.join(place, 'secret')
    writeFileSync(secret, 'VICTIM_FILE\n', { mode: 0o600 })
    const socket = path.join(place, 'socket')
    const victim = spawn('sleep', ['999'], { env: { VICTIM_SECRET: 'VICTIM_FILE' } })
    const listen = (at: object) => createServer((client) => client.destroy()).listen(at)
    const internet = listen({ port: 0, host: '127.0.0.1' })
    const servers = [internet, listen({ path: socket }), listen({ path: `\0nacre-gvisor-${victim.pid}` })]
    await Promise.all(servers.map((server) => server.listening || once(server, 'listening')))
    const { port } = internet.address() as AddressInfo
    try {
      const env = {
        SECRET: secret,
        SOCKET: socket,
        VICTIM: String(victim.pid),
        PORT: String(port),
        OUT: place,
      }
      const sandbox = await open({ network: 'none', user: 'root', env })
      const runtime = path.join(place, 'cache')
      const before = execFileSync('find', [runtime, '-type', 'f', '-exec', 'cksum', '{}', '+'], {
        encoding: 'utf8',
      })
      const escaped: string[] = []
      for (const [name, command] of Object.entries(ATTEMPTS)) {
        const { stdout } = await sandbox.exec(command, { timeout: 30_000 })
        if (/ESCAPED|VICTIM_FILE/.test(stdout)) escaped.push(`${name}: ${stdout}`)
      }
      expect(escaped).toEqual([])
      expect(await shell(sandbox, 'id -u')).toBe('0')
      expect(readFileSync(secret, 'utf8')).toBe('VICTIM_FILE\n')
      expect(readdirSync(place).sort()).toEqual(['cache', 'project', 'secret', 'socket'])
      const after = execFileSync('find', [runtime, '-type', 'f', '-exec', 'cksum', '{}', '+'], {
        encoding: 'utf8',
      })
      expect(after).toBe(before)
      expect(victim.exitCode).toBe(null)
    } finally {
      for (const server of servers) server.close()
      victim.kill('SIGKILL')
    }
  }, 300_000)
})
