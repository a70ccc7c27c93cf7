/** Verbs for containers, with stand-ins for engines that run the server of nacre on this machine. */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { type Cli, withCli } from '../helpers/cli.js'
import { type StandIn, withStandIn } from '../helpers/stand-in-engine.js'
import { holds } from '../helpers/until.js'

type Engines = Parameters<typeof withStandIn>[0]

/** Runs `nacre` with stand-ins for these engines. */
function withEngines(engines: Engines, test: (engine: StandIn, cli: Cli) => Promise<void>): Promise<void> {
  return withStandIn(engines, (engine) => withCli((cli) => test(engine, cli)))
}

const containers = ({ state }: StandIn) =>
  readdirSync(state)
    .filter((name) => name.startsWith('c-'))
    .sort()
const runs = ({ calls }: StandIn) => calls().filter((line) => /^\w+ run /.test(line))

describe('nacre up', () => {
  it('makes a container, and prints its name', () =>
    withEngines(['docker'], async (engine, { nacre }) => {
      const { code, stdout, stderr } = await nacre('up', '--cwd', engine.project, '--setup', 'echo >ready')
      expect([code, stderr]).toEqual([0, expect.stringContaining('setting up the container')])
      expect(containers(engine)).toEqual([`c-${stdout.trim()}`])
      expect(readdirSync(engine.project)).toEqual(['ready'])
      const again = await nacre('up', '--cwd', engine.project, '--setup', 'echo >ready')
      expect(again.stdout).toBe(stdout)
      expect(runs(engine)).toHaveLength(1)
      await nacre('up', '--cwd', engine.project, '--setup', 'echo >ready', '--fresh')
      expect(runs(engine)).toHaveLength(2)
    }))

  it('passes its options', () =>
    withEngines(['docker', 'podman'], async (engine, { nacre }) => {
      const words = [
        '--engine',
        'podman',
        '--image',
        'debian:13',
        '--runtime',
        'runsc',
        '--own',
        'a',
        '--own',
        'b',
        '--mount',
        '/usr/share',
      ]
      const { code } = await nacre('up', '--cwd', engine.project, '--root', ...words)
      expect(code).toBe(0)
      const [line = ''] = runs(engine)
      expect(line).toMatch(/^podman run .*--volume \/usr\/share:\/usr\/share:ro .* debian:13 /)
      for (const own of ['a', 'b']) expect(line).toContain(`--volume ${engine.project}/${own} `)
      expect(line).toContain('--runtime runsc ')
      expect(line).not.toContain('--cap-add')
    }))

  it('shows the output of a failed set-up, and leaves no container', () =>
    withEngines(['docker'], async (engine, { nacre }) => {
      const { code, stderr } = await nacre('up', '--cwd', engine.project, '--setup', 'echo broken; exit 3')
      expect(code).toBe(1)
      expect(stderr).toMatch(
        /set-up of the container nacre-\S+ failed, and it was removed: exit code 3\n.*broken/,
      )
      expect(containers(engine)).toEqual([])
    }))

  it('names the engines that do not answer, and how to start them', () =>
    withEngines(['docker', 'podman'], async (engine, { nacre }) => {
      engine.on('info', 'echo "no daemon" >&2; exit 1')
      const { code, stderr } = await nacre('up', '--cwd', engine.project)
      expect(code).toBe(1)
      expect(stderr).toMatch(/docker \(.*no daemon. To start it: systemctl start docker[\s\S]*podman \(/)
      expect((await nacre('up', '--cwd', engine.project, '--engine', 'container')).stderr).toContain(
        'the container engine container is not installed, but docker and podman are',
      )
    }))

  it('ends at a signal, also during a pull', () =>
    withEngines(['docker'], async (engine, { start }) => {
      engine.on('image inspect', 'exit 1')
      engine.on('pull', 'touch "$state/pulls"; exec sleep 600')
      const up = start(['up', '--cwd', engine.project], '')
      await holds(() => readdirSync(engine.state).includes('pulls'))
      up.child.kill('SIGINT')
      expect((await up.ended).code).toBe(1)
      expect(containers(engine)).toEqual([])
    }))
})

describe('nacre exec --container', () => {
  it('runs a command in the container of the project, and keeps it', () =>
    withEngines(['docker'], async (engine, { nacre }) => {
      mkdirSync(path.join(engine.project, '.git'))
      const below = path.join(engine.project, 'below')
      mkdirSync(below)
      const exec = ['exec', '--container', '--cwd', below]
      expect(await nacre(...exec, '--env', 'X=1', 'echo "$PWD $X"; echo err >&2; exit 3')).toMatchObject({
        code: 3,
        stdout: `${below} 1\n`,
        stderr: expect.stringMatching(/starting a container of node:22\n(.*\n)*err\n$/),
      })
      expect(await nacre(...exec, '--', 'printf', '%s|', '$HOME')).toEqual({
        code: 0,
        stdout: '$HOME|',
        stderr: '',
      })
      expect(runs(engine)).toHaveLength(1)
    }))

  it('has input, JSON, a time limit and a terminal, as without a container', () =>
    withEngines(['docker'], async (engine, { nacre, start }) => {
      const exec = ['exec', '--container', '--cwd', engine.project]
      expect(await start([...exec, 'sort -n'], '30\n7\n').ended).toMatchObject({ stdout: '7\n30\n' })
      expect(JSON.parse((await nacre(...exec, '--json', 'echo x')).stdout)).toMatchObject({ stdout: 'x\n' })
      expect(await nacre(...exec, '--timeout', '300ms', 'sleep 600')).toMatchObject({ code: 124 })
      expect(await nacre(...exec, '--tty', 'test -t 1 && echo terminal')).toMatchObject({
        code: 0,
        stdout: 'terminal\r\n',
      })
    }))

  it('ends the command at a signal', () =>
    withEngines(['docker'], async (engine, { start }) => {
      const exec = start(['exec', '--container', '--cwd', engine.project, 'echo begun; sleep 600'])
      await exec.printed('begun')
      exec.child.kill('SIGTERM')
      expect((await exec.ended).code).toBe(143)
    }))

  it.each([
    [['--image', 'debian:13', 'true'], '--image is for a container: add --container'],
    [['--fresh', 'true'], '--fresh is for a container: add --container'],
    [['--runtime', 'runsc', 'true'], '--runtime is for a container: add --container'],
    [['--container', '--grace', '1s', 'true'], '--grace is not possible with --container'],
    [['--container', '--engine', 'lxc', 'true'], 'Allowed choices are docker, podman, container'],
    [['--container', '--own', '..', 'true'], 'must be a directory below the project'],
  ])('refuses %j', (words, message) =>
    withEngines(['docker'], async (engine, { nacre }) => {
      const { code, stderr } = await nacre('exec', '--cwd', engine.project, ...words)
      expect([code, stderr]).toEqual([2, expect.stringContaining(message)])
      expect(runs(engine)).toEqual([])
    }),
  )
})

it('nacre shell opens a shell in the container of the project', () =>
  withEngines(['docker'], async (engine, { start }) => {
    const words = ['shell', '--cwd', engine.project, '--env', 'X=1']
    const { code, stdout } = await start(words, 'echo "in $PWD: $X"; exit 4\n').ended
    expect([code, stdout]).toEqual([4, expect.stringContaining(`in ${engine.project}: 1\r\n`)])
    expect(containers(engine)).toHaveLength(1)
  }))

describe('nacre down', () => {
  it('removes the containers of the project with all engines, and says so', () =>
    withEngines(['docker', 'podman'], async (engine, { nacre }) => {
      const other = path.join(path.dirname(engine.project), 'other')
      mkdirSync(other)
      const up = (cwd: string, ...words: string[]) => nacre('up', '--cwd', cwd, ...words)
      const first = (await up(engine.project)).stdout.trim()
      const second = (await up(engine.project, '--engine', 'podman', '--image', 'debian:13')).stdout.trim()
      const third = (await up(other)).stdout.trim()
      const { code, stdout } = await nacre('down', '--cwd', engine.project)
      expect(code).toBe(0)
      // Both stand-ins have the same containers.
      expect(stdout.trim().split('\n').sort()).toEqual(
        [
          `removed ${first} (docker, node:22) of ${engine.project}`,
          `removed ${second} (docker, debian:13) of ${engine.project}`,
        ].sort(),
      )
      expect(containers(engine)).toEqual([`c-${third}`])
      expect(await nacre('down', '--cwd', engine.project)).toMatchObject({
        code: 0,
        stdout: '',
        stderr: `nacre: there is no container of ${engine.project}\n`,
      })
      expect((await nacre('down', '--all')).stdout).toBe(`removed ${third} (docker, node:22) of ${other}\n`)
      expect(containers(engine)).toEqual([])
    }))

  it('runs no program of the project in the place of an engine', () =>
    withEngines(['docker'], async (engine, { nacre }) => {
      const bin = path.join(engine.project, 'bin')
      mkdirSync(bin)
      writeFileSync(path.join(bin, 'docker'), `#!/bin/sh\ntouch '${engine.state}/planted'\n`, { mode: 0o755 })
      process.env.PATH = [bin, process.env.PATH].join(path.delimiter)
      expect(await nacre('down', '--cwd', engine.project)).toMatchObject({ code: 0 })
      expect(readdirSync(engine.state)).not.toContain('planted')
    }))

  it.each<Engines[0]>(['docker', 'container'])('removes nothing that nacre has not made (%s)', (name) =>
    withEngines([name], async (engine, { nacre }) => {
      const words = ['--engine', name]
      const own = (await nacre('up', '--cwd', engine.project, ...words)).stdout.trim()
      const foreign = {
        plain: {},
        // Of an image that was made from a container of nacre.
        committed: { 'dev.nacre': '1', 'dev.nacre.name': own, 'dev.nacre.project': engine.project },
        named: { 'dev.nacre': '1', 'dev.nacre.project': engine.project },
        // Of another user of the same engine.
        theirs: {
          'dev.nacre': '1',
          'dev.nacre.name': 'theirs',
          'dev.nacre.user': '12345',
          'dev.nacre.project': engine.project,
        },
      }
      for (const [id, labels] of Object.entries(foreign)) {
        writeFileSync(path.join(engine.state, `c-${id}`), 'running')
        writeFileSync(path.join(engine.state, `i-${id}`), `id-${id}\n`)
        writeFileSync(path.join(engine.state, `l-${id}`), JSON.stringify(labels))
      }
      const { code, stdout } = await nacre('down', '--all', ...words)
      expect([code, stdout]).toEqual([0, expect.stringMatching(new RegExp(`^removed ${own} .*\n$`))])
      expect(containers(engine)).toEqual(['c-committed', 'c-named', 'c-plain', 'c-theirs'])
    }),
  )

  it('removes the others when one container cannot be stopped, or one engine has none to say', () =>
    withEngines(['docker', 'podman'], async (engine, { nacre }) => {
      const other = path.join(path.dirname(engine.project), 'other')
      mkdirSync(other)
      const up = async (cwd: string) => (await nacre('up', '--cwd', cwd)).stdout.trim()
      const names = [await up(engine.project), await up(other)]
      engine.on('ps', `[ "$(basename "$0")" = podman ] || { echo "no list" >&2; exit 1; }`)
      engine.on('stop', `grep -qv "$name" "$state/i-${names[0]}" || { echo "device busy" >&2; exit 1; }`)
      const { code, stdout, stderr } = await nacre('down', '--all')
      expect([code, stdout]).toEqual([
        1,
        expect.stringMatching(new RegExp(`^removed ${names[1]} \\(podman, .*\n$`)),
      ])
      expect(stderr).toContain('docker cannot list its containers: no list')
      expect(stderr).toContain(`podman cannot stop the container ${names[0]}: device busy`)
      expect(containers(engine)).toEqual([`c-${names[0]}`])
    }))

  it('names an engine that does not answer, and refuses the home directory', () =>
    withEngines(['docker', 'podman'], async (engine, { nacre }) => {
      await nacre('up', '--cwd', engine.project)
      engine.on('info', `[ "$(basename "$0")" = docker ] || { echo broken >&2; exit 1; }`)
      const { code, stdout, stderr } = await nacre('down', '--cwd', engine.project)
      expect([code, stdout]).toEqual([0, expect.stringContaining('removed nacre-')])
      expect(stderr).toContain('podman does not answer, so its containers stay: broken. To start it: ')
      expect(await nacre('down', '--cwd', '/')).toMatchObject({ code: 1, stdout: '' })
      engine.on('info', 'exit 1')
      expect(await nacre('down', '--all')).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('no container engine answers'),
      })
    }))
})

it('nacre doctor shows the engines, and what works in the containers that run', () =>
  withEngines(['docker', 'podman'], async (engine, { nacre }) => {
    engine.on('info', `[ "$(basename "$0")" = docker ] || { echo broken >&2; exit 1; }`)
    const name = (await nacre('up', '--cwd', engine.project)).stdout.trim()
    const { stdout, stderr } = await nacre('doctor')
    expect(stderr).toBe('')
    expect(stdout).toMatch(/^ok +engine docker +\/.*: version 28\.1\.0, runtimes: runc, runsc$/m)
    expect(stdout).toMatch(/^warn +engine podman +\/.*: broken\n +To start it: /m)
    const [, inside = ''] = stdout.split(`\n${name}, a container of docker with node:22\n`)
    for (const subject of ['file isolation', 'limits', 'workspaces'])
      expect(inside).toMatch(new RegExp(`^(ok|warn) +${subject} `, 'm'))
    const { engines, containers: found } = JSON.parse((await nacre('doctor', '--json')).stdout)
    expect(engines).toHaveLength(2)
    expect(found).toEqual([
      expect.objectContaining({
        name,
        engine: 'docker',
        capabilities: expect.objectContaining({ shell: expect.any(String) }),
      }),
    ])
    // Others may use the same engine.
    const theirs = { 'dev.nacre': '1', 'dev.nacre.name': 'theirs', 'dev.nacre.user': '12345' }
    writeFileSync(path.join(engine.state, 'c-theirs'), 'running')
    writeFileSync(path.join(engine.state, 'i-theirs'), 'id-theirs\n')
    writeFileSync(path.join(engine.state, 'l-theirs'), JSON.stringify(theirs))
    expect(JSON.parse((await nacre('doctor', '--json')).stdout).containers).toHaveLength(1)
    engine.on('exec', 'echo gone >&2; exit 9')
    expect((await nacre('doctor')).stdout).toMatch(
      /a container of docker with node:22\n.*exit code 9[\s\S]*gone\n/,
    )
  }))
