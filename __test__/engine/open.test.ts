/** `openSandbox`: finding an engine, its command lines and its errors, with stand-ins for engines. The server is real. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { type EngineOptions, openSandbox } from 'nacre/engine'
import { describe, expect, it } from 'vitest'
import { asOrdinaryUser, obstacle } from '../helpers/ordinary-user.js'
import { DOCKER, withStandIn } from '../helpers/stand-in-engine.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds } from '../helpers/until.js'

const root = path.dirname(path.dirname(__dirname))

describe('on this machine', () => {
  it('is a Sandbox, with the options that count there', async () => {
    const sandbox = await openSandbox({ cwd: '/usr', env: { X: 'set' }, image: 'any:1', own: ['x'] })
    expect(sandbox).toBeInstanceOf(Sandbox)
    expect(sandbox.container).toBe(null)
    expect((await sandbox.exec('echo $PWD $X')).stdout).toBe('/usr set\n')
    await sandbox.stop()
    expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({ code: 'SANDBOX_DESTROYED' })
  })

  it('forwards ports of its programs, until it ends', async () => {
    const sandbox = await openSandbox({ where: 'here' })
    const port = await freePort()
    const script = `require('http').createServer((q, r) => r.end(q.url)).listen(${port}, '127.0.0.1', () => console.log('up'))`
    await (await sandbox.startProcess(['node', '-e', script])).waitForLog('up')
    const { url } = await sandbox.forward(port)
    expect(await (await fetch(`${url}/a`)).text()).toBe('/a')
    await sandbox.destroy()
    await expect(fetch(url)).rejects.toThrow()
  })
})

describe('the engine', () => {
  it('is the first that answers', () =>
    withStandIn(['docker', 'podman'], async ({ open, answers }) => {
      expect((await open({ engine: 'auto' })).container?.engine).toBe('docker')
      answers('docker', '{"ServerVersion":"","OSType":""}')
      expect((await open({ engine: 'auto' })).container?.engine).toBe('podman')
    }))

  it.each([
    ['does not run', 'echo "Cannot connect to the daemon" >&2; exit 1', 'Cannot connect to the daemon.'],
    ['asks', 'echo "Is the docker daemon running?" >&2; exit 1', 'Is the docker daemon running?'],
    ['hangs', 'exec sleep 60', 'it did not answer within 3 s.'],
    [
      'has no service',
      `echo '${JSON.stringify({ ServerVersion: '', OSType: '' })}'; exit 0`,
      'its service does not answer.',
    ],
    [
      'is for Windows',
      `echo '${DOCKER.replace('linux', 'windows')}'; exit 0`,
      'it runs containers of windows, not of Linux.',
    ],
    ['prints something else', 'echo hello; exit 0', 'its answer is not that of the engine.'],
  ])('that %s is named, with the remedy', (_, script, problem) =>
    withStandIn(['docker'], async ({ open, on }) => {
      on('info', script)
      const error = (await rejectionOf(open())) as Error
      expect(error).toMatchObject({ code: 'ENGINE_NOT_FOUND' })
      expect(error.message).toContain(`cannot be used: ${problem} To start it: systemctl start docker`)
    }),
  )

  it('that is not installed is named', () =>
    withStandIn(['docker'], async ({ open }) => {
      const error = await rejectionOf(open({ engine: 'container' }))
      // This machine may have a Podman of its own.
      const message =
        /^the container engine container is not installed, but docker (is|and podman are): install it, or leave out engine$/
      expect(error).toMatchObject({
        code: 'ENGINE_NOT_FOUND',
        message: expect.stringMatching(message),
      })
    }))
})

describe('a container', () => {
  it('runs commands with the options, and gets no variables of this program', () =>
    withStandIn(['docker'], async ({ open, project, calls }) => {
      const steps: string[] = []
      const sandbox = await open({ env: { X: 'ä' }, onProgress: (step) => steps.push(step) })
      expect(sandbox).toBeInstanceOf(SandboxClient)
      expect(
        (await sandbox.exec('echo "$PWD $X"; git config user.x; env | grep -c NACRE_INSIDE')).stdout,
      ).toBe(`${project} ä\n0\n`)
      expect(steps).toEqual(['starting a container of node:22'])
      expect(sandbox.container).toMatchObject({ engine: 'docker', image: 'node:22' })
      // Options with values are on no command line.
      expect(calls().find((line) => line.startsWith('docker exec'))).toMatch(
        /^docker exec --interactive --user 0:0 --env NACRE_INSIDE nacre-my-project-[0-9a-f]{10} \/opt\/nacre\/nacre-supervisor --enter /,
      )
    }))

  it('has the project, rights for isolation, no published port and no log', () =>
    withStandIn(['docker'], async ({ open, project, calls }) => {
      await asUser(501, () => open({ own: ['node_modules'], memory: '2g', cpus: 1.5, grace: 1000 }))
      const line = calls().find((one) => one.startsWith('docker run')) ?? ''
      for (const words of [
        `--volume ${project}:${project} `,
        `:/opt/nacre:ro `,
        `--volume ${project}/node_modules `,
        '--entrypoint /opt/nacre/nacre-supervisor --user 0:0',
        '--cap-add SYS_ADMIN --cap-add NET_ADMIN --cap-add SYS_PTRACE',
        '--security-opt writable-cgroups=true',
        '--cpus 1.5 --memory 2g',
        '--add-host host.docker.internal:host-gateway --log-driver none --pids-limit -1 --pull never --no-healthcheck --init=false --stop-signal SIGTERM node:22 --init 1000',
      ])
        expect(line).toContain(words)
      expect(line).not.toMatch(/--publish|-p |--privileged|docker\.sock|seccomp/)
      expect(readdirSync(path.join(project, 'node_modules'))).toEqual([])
    }))

  it('has no rights when commands are root and nothing is isolated', () =>
    withStandIn(['docker'], async ({ open, calls }) => {
      await open({ user: 'root' })
      await open({ user: 'root', isolation: { network: 'none', bestEffort: true } })
      const lines = calls().filter((one) => one.startsWith('docker run'))
      expect(lines.map((line) => line.includes('--cap-add'))).toEqual([false, true])
    }))

  it.each(['docker', 'podman'] as const)(
    'of %s is run by the runtime that is given, and another one',
    (name) =>
      withStandIn([name], async ({ open, calls }) => {
        const own = await open()
        const other = await open({ runtime: 'runsc' })
        expect(other.container?.name).not.toBe(own.container?.name)
        const runs = calls().filter((line) => line.startsWith(`${name} run `))
        expect(runs.map((line) => line.includes('--runtime runsc '))).toEqual([false, true])
        expect(await rejectionOf(open({ runtime: '--privileged' }))).toMatchObject({
          code: 'INVALID_OPTION',
          message: expect.stringContaining('runtime must be the name of an OCI runtime, like runsc'),
        })
      }),
  )

  it('with a runtime that the engine does not know is refused in its words', () =>
    withStandIn(['docker'], async ({ open, on }) => {
      on('run', 'echo "unknown or invalid runtime name: kata" >&2; exit 125')
      const error = await rejectionOf(open({ runtime: 'kata' }))
      expect(error).toMatchObject({
        code: 'CONTAINER_FAILED',
        message: expect.stringContaining('unknown or invalid runtime name: kata'),
      })
    }))

  it('of rootless podman has the ids of this user', () =>
    withStandIn(['podman'], async ({ open, calls }) => {
      await asUser(501, () => open())
      const line = calls().find((one) => one.startsWith('podman run')) ?? ''
      expect(line).toContain('--userns keep-id --passwd=false')
      // The address of a proxy may have a password.
      expect(line).toContain('--http-proxy=false ')
      expect(calls().find((one) => one.startsWith('podman exec'))).toMatch(
        / --enter 501 \d+ \w+ has=\.nacre-\S+ /,
      )
    }))

  it('is shared by clients with the same options, and by no others', () =>
    withStandIn(['docker'], async ({ open, calls }) => {
      const [one, two, other] = await Promise.all([open(), open(), open({ network: 'none' })])
      expect(one.container?.name).toBe(two.container?.name)
      expect(other.container?.name).not.toBe(one.container?.name)
      await one.exec('x=1')
      expect((await two.exec('echo "$x"')).stdout).toBe('\n')
      await one.destroy()
      expect((await two.exec('echo lives')).stdout).toBe('lives\n')
      expect(calls().filter((line) => line.startsWith('docker stop'))).toEqual([])
    }))

  it('that has stopped is started again', () =>
    withStandIn(['docker'], async ({ open, calls }) => {
      const first = await open()
      await first.stop()
      expect(await rejectionOf(first.exec('true'))).toMatchObject({ code: 'SANDBOX_DESTROYED' })
      const second = await open()
      expect((await second.exec('echo there')).stdout).toBe('there\n')
      expect(calls().map((line) => line.split(' ')[1])).toContain('start')
    }))

  it('has a path with a colon, and mounts', () =>
    withStandIn(['docker'], async ({ open, project, calls }) => {
      const odd = path.join(path.dirname(project), 'a:b,"c"')
      mkdirSync(odd)
      await open({ mounts: [{ source: odd, readOnly: true }, { source: '/usr/share' }] })
      const line = calls().find((one) => one.startsWith('docker run')) ?? ''
      const field = (name: string) => `"${name}=${odd.replaceAll('"', '""')}"`
      expect(line).toContain(`--mount type=bind,${field('source')},${field('target')},readonly `)
      expect(line).toContain('--volume /usr/share:/usr/share ')
    }))

  it('has each mount once, and none that is a part of the project', () =>
    withStandIn(['docker'], async ({ open, project, calls }) => {
      const below = path.join(project, 'below')
      mkdirSync(below)
      const sources = [project, below, '/usr/share', '/usr/share/../share', '/etc/ssl']
      await open({ mounts: sources.map((source) => ({ source })), own: ['a', 'a', './a'] })
      const line = calls().find((one) => one.startsWith('docker run')) ?? ''
      const volumes = [...line.matchAll(/--volume (.*?)(?= --)/g)].map(([, volume]) => volume)
      expect(volumes).toEqual([
        `${project}:${project}`,
        '/usr/share:/usr/share',
        '/etc/ssl:/etc/ssl',
        expect.stringMatching(/:\/opt\/nacre:ro$/),
        '/var/lib/nacre',
        path.join(project, 'a'),
      ])
    }))

  it.each<[EngineOptions, RegExp]>([
    [
      { mounts: [{ source: '.', readOnly: true }] },
      /^mounts\[0\]\.source is .*, to read only, which cwd gives .* to write/,
    ],
    [
      { mounts: [{ source: '/usr/share', readOnly: true }, { source: '/usr/share' }] },
      /^mounts\[1\]\.source is .*, to write, which mounts\[0\]\.source gives .* to read only/,
    ],
    [{ cwd: '/opt' }, /^cwd is \/opt, and a container has its own \/opt\/nacre/],
    [{ mounts: [{ source: '/etc' }] }, /a container has its own \/etc\/passwd/],
    [{ mounts: [{ source: '/var/lib' }] }, /a container has its own \/var\/lib\/nacre/],
    [{ mounts: [{ source: '/dev' }] }, /a container has its own \/dev\/null/],
    [{ mounts: [{ source: '/proc/sys', readOnly: true }] }, /a container has its own \/proc/],
    [{ mounts: [{ source: 'below', readOnly: true }], own: ['below'] }, /^own\[0\] must be no mount/],
  ])('refuses %j', (options, message) =>
    withStandIn(['docker'], async ({ open, project, calls }) => {
      mkdirSync(path.join(project, 'below'))
      const error = (await rejectionOf(open(options))) as Error
      expect(error).toMatchObject({ code: 'INVALID_OPTION' })
      expect(error.message).toMatch(message)
      expect(calls()).toEqual([])
    }),
  )

  it('mounts nothing in place of an own directory whose path has a colon', () =>
    withStandIn(['docker'], async ({ open, project, calls }) => {
      await open({ own: ['x:/etc'] })
      const line = calls().find((one) => one.startsWith('docker run')) ?? ''
      expect(line).toContain(`--mount type=volume,target=${project}/x:/etc `)
    }))

  it('that stops just before a client enters is started again', () =>
    withStandIn(['docker'], async ({ open, on, state, calls }) => {
      on(
        'exec',
        `[ -e "$state/once" ] || { touch "$state/once"; echo exited | tee "$state"/c-* >/dev/null; echo stopped; exit 126; }`,
      )
      const sandbox = await open()
      expect((await sandbox.exec('echo there')).stdout).toBe('there\n')
      expect(existsSync(path.join(state, 'once'))).toBe(true)
      expect(calls().map((line) => line.split(' ')[1])).toContain('start')
    }))

  it.each([
    ['start', 'container is marked for removal and cannot be started'],
    ['start', 'container abc is being removed'],
    ['run', 'Conflict. The container name is already in use'],
  ])('that others remove for seconds is made again (%s: %s)', (call, message) =>
    withStandIn(['docker'], async ({ open, on, state }) => {
      await (await open()).stop()
      if (call === 'run') rmSync(path.join(state, readdirSync(state).find((name) => /^c-/.test(name)) ?? ''))
      on(
        call,
        `echo >>"$state/tries"; [ "$(wc -l <"$state/tries")" -gt 12 ] || { echo "Error: ${message}" >&2; exit 1; }`,
      )
      expect((await (await open()).exec('echo there')).stdout).toBe('there\n')
    }),
  )

  it('that another client removes, too, is replaced by a fresh one', () =>
    withStandIn(['docker'], async ({ open, on, state }) => {
      await open()
      on(
        'rm',
        `rm -f "$state"/c-*; echo "Error: removal of container $name is already in progress" >&2; exit 1`,
      )
      expect((await (await open({ fresh: true })).exec('echo there')).stdout).toBe('there\n')
      rmSync(path.join(state, 'on-rm'))
    }))

  it('stays for others when the client that has created it gives up', () =>
    withStandIn(['docker'], async ({ open, on, state, calls }) => {
      on('exec', `touch "$state/entered"; exec sleep 60`)
      const controller = new AbortController()
      const given = rejectionOf(open({ signal: controller.signal }))
      await holds(() => existsSync(path.join(state, 'entered')))
      on('exec', '')
      const other = await open()
      controller.abort()
      expect(await given).toMatchObject({ name: 'AbortError' })
      expect((await other.exec('echo lives')).stdout).toBe('lives\n')
      expect(calls().filter((line) => line.includes('docker rm --volumes --force'))).toEqual([])
      expect((await open()).container?.name).toBe(other.container?.name)
      expect(calls().filter((line) => line.startsWith('docker run'))).toHaveLength(1)
    }))

  it('lets programs of this machine connect to its servers', () =>
    withServer((port) =>
      withStandIn(['docker'], async ({ open }) => {
        const sandbox = await open()
        const forwarding = await sandbox.forward(port)
        const { url } = forwarding
        expect(url).not.toContain(`:${port}`)
        expect(await (await fetch(`${url}/b`)).text()).toBe('/b')
        const body = 'x'.repeat(3_000_000)
        expect(await (await fetch(`${url}/c`, { method: 'POST', body })).text()).toBe('/c3000000')
        await expect(sandbox.forward(port, { local: port })).rejects.toMatchObject({ code: 'PORT_IN_USE' })
        await expect(sandbox.forward(0)).rejects.toMatchObject({ code: 'INVALID_OPTION' })
        await forwarding.close()
        await expect(fetch(url)).rejects.toThrow()
        const free = await freePort()
        const dead = await sandbox.forward(free, { local: 0 })
        await expect(fetch(dead.url)).rejects.toThrow()
        expect((await sandbox.exec('echo lives')).stdout).toBe('lives\n')
        // Programs may connect while it ends.
        const last = await sandbox.forward(port)
        let isOver = false
        const ending = sandbox.destroy().then(() => {
          isOver = true
        })
        while (!isOver) await fetch(last.url).catch(() => {})
        await ending
        await expect(fetch(last.url)).rejects.toThrow()
      }),
    ))

  it('whose server ends is lost', () =>
    withStandIn(['docker'], async ({ open }) => {
      const sandbox = await open()
      const error = (await rejectionOf(
        sandbox.exec('kill -9 $(ps -o ppid= -p $(ps -o ppid= -p $$))'),
      )) as Error
      expect(error).toMatchObject({ code: 'SANDBOX_LOST' })
      expect(error.message).toContain('docker exec nacre-my-project-')
      expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({ code: 'SANDBOX_LOST' })
    }))
})

describe('the errors', () => {
  const cases: Array<[string, Record<string, string>, string, RegExp, boolean]> = [
    [
      'of an image that cannot be pulled',
      { 'image inspect': 'exit 1', pull: 'echo "manifest unknown" >&2; exit 1' },
      'IMAGE_UNAVAILABLE',
      /node:22 cannot be pulled: manifest unknown/,
      false,
    ],
    [
      'of an image for another processor',
      { 'image inspect': 'echo s390x; exit 0' },
      'RUNTIME_UNSUPPORTED',
      /is for s390x, and docker runs on/,
      false,
    ],
    [
      'of an image without bash',
      { exec: 'exit 70' },
      'IMAGE_WITHOUT_BASH',
      /the image node:22 has no bash/,
      true,
    ],
    [
      "of a container that has lost nacre's files",
      { exec: 'exit 127' },
      'CONTAINER_FAILED',
      /has lost the files of nacre: replace it with fresh/,
      true,
    ],
    [
      'of a directory that is not shared',
      { exec: 'exit 71' },
      'MOUNT_MISSING',
      /has other files in .*my project than this machine/,
      true,
    ],
    [
      'of a C library without an addon',
      { exec: 'echo musl >&2; exit 72' },
      'RUNTIME_UNSUPPORTED',
      /has the C library musl/,
      true,
    ],
    [
      'of a server that fails',
      { exec: 'echo broken >&2; exit 9' },
      'CONTAINER_FAILED',
      /exit code 9.*broken/s,
      true,
    ],
    [
      'of a container that does not start',
      { run: 'echo "no space left" >&2; exit 125' },
      'CONTAINER_FAILED',
      /docker cannot start the container .*: no space left/,
      true,
    ],
    [
      'of an engine that has none of the files',
      {
        run: 'echo "exec: \\"/opt/nacre/nacre-supervisor\\": stat: no such file or directory" >&2; exit 127',
      },
      'MOUNT_MISSING',
      /docker has none of nacre's files in the container .*: let docker share this directory/,
      true,
    ],
    [
      'of an engine that breaks',
      { inspect: 'echo "daemon died" >&2; exit 1' },
      'CONTAINER_FAILED',
      /docker cannot look for the container .*: daemon died/,
      false,
    ],
  ]

  it.each(cases)('%s name the remedy, and leave no container', (_, scripts, code, message, isRemoved) =>
    withStandIn(['docker'], async ({ open, on, calls, state }) => {
      for (const [call, script] of Object.entries(scripts)) on(call, script)
      const error = (await rejectionOf(open())) as Error
      expect(error).toMatchObject({ name: 'SandboxError', code })
      expect(error.message).toMatch(message)
      expect(calls().some((line) => /^docker rm --volumes /.test(line))).toBe(isRemoved)
      expect(readdirSync(state).filter((name) => name.startsWith('c-'))).toEqual([])
    }),
  )

  it('of options that only the server can check are its own, and leave the container to others', () =>
    withStandIn(['docker'], async ({ open, on, state, calls }) => {
      on('exec', `touch "$state/entered"; while [ ! -e "$state/go" ]; do sleep 0.05; done`)
      const isolation = { bestEffort: true, filesystem: { write: ['missing'] } }
      const refused = rejectionOf(open({ isolation }))
      await holds(() => existsSync(path.join(state, 'entered')))
      on('exec', '')
      const other = await open()
      writeFileSync(path.join(state, 'go'), '')
      const error = (await refused) as Error
      expect(error).toMatchObject({ name: 'OptionError', code: 'INVALID_OPTION' })
      expect(error.message).toMatch(/^isolation\.filesystem\.write.*missing/)
      expect((await other.exec('echo lives')).stdout).toBe('lives\n')
      expect(calls().filter((line) => line.startsWith('docker rm'))).toEqual([])
    }))

  it('have no secrets, whose values the container would have', () =>
    withStandIn(['docker'], async ({ open, calls }) => {
      const secrets = { TOKEN: { value: 'a-secret-value', hosts: ['api.test'] } }
      const error = await rejectionOf(open({ isolation: { network: { allow: [], secrets } } }))
      expect(error).toMatchObject({ name: 'OptionError', code: 'INVALID_OPTION' })
      expect(error.message).toMatch(/^isolation\.network\.secrets must be left out for a container/)
      expect(calls()).toEqual([])
    }))

  it('pull nothing with never', () =>
    withStandIn(['docker'], async ({ open, on, calls }) => {
      on('image inspect', 'exit 1')
      expect(await rejectionOf(open({ pull: 'never' }))).toMatchObject({ code: 'IMAGE_UNAVAILABLE' })
      expect(calls().filter((line) => line.startsWith('docker pull'))).toEqual([])
    }))

  it('refuse variables that are too large, before a container starts', () =>
    withStandIn(['docker'], async ({ open, calls }) => {
      const error = (await rejectionOf(open({ env: { CERTIFICATES: '€'.repeat(50_000) } }))) as Error
      expect(error).toMatchObject({ code: 'INVALID_OPTION' })
      expect(error.message).toBe('env and isolation must have at most 130000 bytes together in a container')
      expect(calls().filter((line) => line.startsWith('docker run'))).toEqual([])
      expect((await (await open({ env: { X: 'x'.repeat(120_000) } })).exec('echo ${#X}')).stdout).toBe(
        '120000\n',
      )
    }))

  it('refuse a name in the settings of git that is too long', () =>
    withStandIn(['docker'], async ({ open, project }) => {
      execFileSync('git', ['init', '-q', project])
      execFileSync('git', ['-C', project, 'config', 'user.name', 'x'.repeat(100_000)])
      const sandbox = await open({ env: { GIT_CONFIG_GLOBAL: '/dev/null' } })
      expect((await sandbox.exec('env | grep -c user.name')).stdout).toBe('0\n')
    }))

  it('refuse a file as the directory, and own directories that cannot be made', () =>
    withStandIn(['docker'], async ({ open, project, calls }) => {
      writeFileSync(path.join(project, 'file'), '')
      const error = (await rejectionOf(open({ cwd: path.join(project, 'file') }))) as Error
      expect(error).toMatchObject({ code: 'CWD_NOT_FOUND', message: expect.stringContaining('(ENOTDIR)') })
      const own = (await rejectionOf(open({ own: ['x'.repeat(300)] }))) as Error
      expect(own).toMatchObject({
        code: 'INVALID_OPTION',
        message: expect.stringContaining('(ENAMETOOLONG)'),
      })
      expect(calls()).toEqual([])
    }))

  it('refuse the home directory and everything above it', () =>
    withStandIn(['docker'], async ({ open, calls }) => {
      for (const options of [{ cwd: '/' }, { cwd: os.homedir() }, { mounts: [{ source: '/' }] }])
        expect(await rejectionOf(open(options))).toMatchObject({ code: 'PROJECT_TOO_WIDE' })
      expect(await rejectionOf(open({ cwd: '/missing' }))).toMatchObject({ code: 'CWD_NOT_FOUND' })
      expect(await rejectionOf(open({ mounts: [{ source: '/missing' }] }))).toMatchObject({
        code: 'MOUNT_MISSING',
      })
      expect(calls()).toEqual([])
    }))

  it('refuse the home directory of this user also when HOME is another one', () =>
    withStandIn(['docker'], async ({ open, project }) => {
      const { HOME } = process.env
      process.env.HOME = path.join(path.dirname(project), 'home')
      try {
        const { homedir } = os.userInfo()
        expect(await rejectionOf(open({ cwd: homedir }))).toMatchObject({ code: 'PROJECT_TOO_WIDE' })
      } finally {
        process.env.HOME = HOME
      }
    }))

  it.each(['unset HOME', 'export HOME=relative'])(
    'name the problem of a user without an account after %s',
    (home) => {
      expect(obstacle).toBe(undefined)
      const script = `
      import { openSandbox } from ${JSON.stringify(path.join(root, 'dist/engine/index.js'))}
      for (const cwd of ['/', '/usr/share'])
        await openSandbox({ where: 'container', engine: 'docker', cwd }).catch(({ code }) => console.log(code))`
      const node = [process.execPath, '--input-type=module', '-e', script]
      const shell = ['sh', '-c', `${home}; PATH=; exec "$@"`, 'sh']
      const [program = '', ...words] = [...asOrdinaryUser, ...shell, ...node]
      expect(execFileSync(program, words, { encoding: 'utf8' })).toMatch(
        /^PROJECT_TOO_WIDE\n(ENGINE_NOT_FOUND|STATE_DIR_UNAVAILABLE)\n$/,
      )
    },
  )

  it('refuse own directories outside of the project, and behind links', () =>
    withStandIn(['docker'], async ({ open, project }) => {
      const away = path.join(path.dirname(project), 'away')
      mkdirSync(away)
      symlinkSync(away, path.join(project, 'link'))
      for (const own of ['.', '..', away, 'link', 'link/below'])
        expect(await rejectionOf(open({ own: [own] }))).toMatchObject({ code: 'INVALID_OPTION' })
      expect(readdirSync(away)).toEqual([])
    }))

  it('report an abort, also during a pull', () =>
    withStandIn(['docker'], async ({ open, on }) => {
      on('image inspect', 'exit 1')
      on('pull', 'exec sleep 60')
      const controller = new AbortController()
      const onProgress = (step: string) => {
        if (step.startsWith('pulling')) controller.abort('enough')
      }
      const error = await rejectionOf(open({ signal: controller.signal, onProgress }))
      expect(error).toMatchObject({ name: 'AbortError', cause: 'enough' })
    }))

  it('report an abort while the engine is asked', () =>
    withStandIn(['docker'], async ({ open, on, state }) => {
      on('info', `touch "$state/asked"; exec sleep 60`)
      const controller = new AbortController()
      const opening = rejectionOf(open({ signal: controller.signal }))
      await holds(() => existsSync(path.join(state, 'asked')))
      controller.abort()
      expect(await opening).toMatchObject({ name: 'AbortError' })
    }))
})

describe('the project', () => {
  const git = (cwd: string, ...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x@x', ...args], { cwd, stdio: 'ignore' })

  it('is the top of the repository, and for a worktree also its repository', () =>
    withStandIn(['docker'], async ({ open, project, calls }) => {
      git(project, 'init', '-q')
      git(project, 'commit', '-q', '--allow-empty', '-m', 'one')
      const below = path.join(project, 'a')
      mkdirSync(below)
      await open({ cwd: below })
      const tree = path.join(path.dirname(project), 'tree')
      git(project, 'worktree', 'add', '-q', tree)
      await open({ cwd: tree })
      const [first, second] = calls().filter((line) => line.startsWith('docker run'))
      expect(first).toContain(`--volume ${project}:${project} `)
      expect(second).toContain(`--volume ${tree}:${tree} --volume ${project}/.git:${project}/.git `)
    }))

  it('believes no file that names the directory of somebody else', () =>
    withStandIn(['docker'], async ({ open, project, calls }) => {
      const secret = path.join(path.dirname(project), 'secret')
      mkdirSync(path.join(secret, 'worktrees', 'x'), { recursive: true })
      writeFileSync(path.join(project, '.git'), `gitdir: ${secret}/worktrees/x\n`)
      writeFileSync(path.join(secret, 'worktrees', 'x', 'commondir'), '../..\n')
      await open()
      expect(calls().join('\n')).not.toContain('secret')
    }))
})

/** Runs with the ids of a user, as a program of that user sees them. */
async function asUser<T>(id: number, run: () => Promise<T>): Promise<T> {
  const { getuid, getgid } = process
  Object.assign(process, { getuid: () => id, getgid: () => id })
  try {
    return await run()
  } finally {
    Object.assign(process, { getuid, getgid })
  }
}

async function withServer(test: (port: number) => Promise<void>): Promise<void> {
  const server = http.createServer(async (request, response) => {
    let length = 0
    for await (const chunk of request) length += chunk.length
    response.setHeader('connection', 'close').end(`${request.url}${length || ''}`)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    await test((server.address() as AddressInfo).port)
  } finally {
    server.close()
  }
}

async function freePort(): Promise<number> {
  const server = http.createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

it('removes copies of its files that nothing has used for a month', () =>
  withStandIn(['docker', 'podman'], async ({ open }) => {
    const cache = path.join(process.env.XDG_CACHE_HOME ?? '', 'nacre/runtime')
    for (const [name, days] of Object.entries({ '0.0.1-x64-old': 31, '0.0.2-x64-used': 29, 'new-x': 40 })) {
      mkdirSync(path.join(cache, name, 'gnu'), { recursive: true })
      const time = new Date(Date.now() - days * 24 * 3_600_000)
      utimesSync(path.join(cache, name), time, time)
    }
    await open()
    expect(readdirSync(cache).sort()).toEqual(['0.0.2-x64-used', expect.stringMatching(/^\d/)])
  }))
