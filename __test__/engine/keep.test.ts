/** Containers that are kept: their set-up, new ones in their place, and what protects and cleans up their files. */
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { withStandIn } from '../helpers/stand-in-engine.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'

describe('setup', () => {
  it('runs once in the top of the project, before any client enters', () =>
    withStandIn(['docker'], async ({ open, project, calls }) => {
      const below = path.join(project, 'below')
      mkdirSync(path.join(project, '.git'))
      mkdirSync(below)
      const setup = 'echo "$PWD" >>setup-ran; sleep 0.3; echo done >>setup-ran'
      const steps: string[] = []
      const sandboxes = await Promise.all(
        [project, below, project].map((cwd) => open({ cwd, setup, onProgress: (step) => steps.push(step) })),
      )
      const seen = await Promise.all(sandboxes.map((one) => one.exec(`cat '${project}/setup-ran'`)))
      for (const { stdout } of seen) expect(stdout).toBe(`${project}\ndone\n`)
      await sandboxes[0]?.stop()
      await open({ setup })
      expect(readFileSync(path.join(project, 'setup-ran'), 'utf8')).toBe(`${project}\ndone\n`)
      expect(steps.filter((step) => step === 'setting up the container')).toHaveLength(1)
      // It may have a password.
      expect(calls().join('\n')).not.toContain('setup-ran')
    }))

  it('makes another container', () =>
    withStandIn(['docker'], async ({ open }) => {
      const names = [await open(), await open({ setup: ':' }), await open({ setup: 'true' })]
      expect(new Set(names.map(({ container }) => container?.name)).size).toBe(3)
    }))

  it('that fails shows its output, and leaves no container', () =>
    withStandIn(['docker'], async ({ open, project, state }) => {
      const setup = 'echo "no such package" >&2; seq 10000; echo last; [ -e allowed ] || exit 3'
      const error = (await rejectionOf(open({ setup }))) as Error
      expect(error).toMatchObject({ code: 'CONTAINER_FAILED' })
      expect(error.message).toMatch(/failed, and it was removed: exit code 3\n[\s\S]*\n9999\n10000\nlast$/)
      expect(error.message.length).toBeLessThan(3000)
      expect(readdirSync(state).filter((name) => /^[cilrs]-/.test(name))).toEqual([])
      writeFileSync(path.join(project, 'allowed'), '')
      expect((await (await open({ setup })).exec('echo there')).stdout).toBe('there\n')
    }))

  it('that has no input gets none of the connection', () =>
    withStandIn(['docker'], async ({ open }) => {
      const sandbox = await open({ setup: 'cat >read' })
      expect((await sandbox.exec('wc -c <read')).stdout.trim()).toBe('0')
    }))

  it('that is aborted leaves no container', () =>
    withStandIn(['docker'], async ({ open, project, state }) => {
      const controller = new AbortController()
      const setup = 'touch begun; sleep 600'
      const opening = rejectionOf(open({ setup, signal: controller.signal }))
      await holds(() => existsSync(path.join(project, 'begun')))
      controller.abort()
      expect(await opening).toMatchObject({ name: 'AbortError' })
      expect(readdirSync(state).filter((name) => /^[cilrs]-/.test(name))).toEqual([])
    }))

  it('that was interrupted is begun again in a new container', () =>
    withStandIn(['docker'], async ({ open, project, calls }) => {
      const setup = 'echo run >>runs; echo $PPID >pid; until [ -e second ]; do sleep 0.05; done'
      const first = open({ setup })
      const pid = await until(
        () => {
          const file = path.join(project, 'pid')
          return existsSync(file) ? Number(readFileSync(file, 'utf8')) || undefined : undefined
        },
        () => 'the set-up has not begun',
      )
      const waiting = open({ setup })
      await holds(() => calls().filter((line) => line.includes('--set-up')).length === 2)
      // As the end of the container does.
      process.kill(pid, 'SIGKILL')
      writeFileSync(path.join(project, 'second'), '')
      for (const sandbox of await Promise.all([first, waiting]))
        expect((await sandbox.exec('echo there')).stdout).toBe('there\n')
      // Both may have tried to make the container, but one of them has.
      expect(readFileSync(path.join(project, 'runs'), 'utf8')).toBe('run\nrun\n')
    }))
})

describe('fresh', () => {
  it('replaces the container, also one that runs', () =>
    withStandIn(['docker'], async ({ open, calls }) => {
      const setup = 'echo again >>setup-ran'
      const { container } = await open({ setup })
      const second = await open({ setup, fresh: true })
      expect(second.container).toEqual(container)
      expect((await second.exec('cat setup-ran')).stdout).toBe('again\nagain\n')
      expect(calls().filter((line) => line.startsWith('docker rm --volumes --force'))).toHaveLength(1)
      expect(calls().filter((line) => line.startsWith('docker run'))).toHaveLength(2)
      await open({ setup })
      expect(calls().filter((line) => line.startsWith('docker run'))).toHaveLength(2)
    }))

  it('removes no container that nacre has not made', () =>
    withStandIn(['docker'], async ({ open, state, calls }) => {
      const { container } = await open()
      writeFileSync(path.join(state, `l-${container?.name}`), '{"dev.nacre":"1"}')
      const error = (await rejectionOf(open({ fresh: true }))) as Error
      expect(error).toMatchObject({ code: 'CONTAINER_FAILED' })
      expect(error.message).toContain('was not made by nacre')
      expect(calls().filter((line) => line.startsWith('docker rm'))).toEqual([])
    }))
})

const settingsOf = (state: string) => JSON.parse(readFileSync(path.join(state, 'settings'), 'utf8'))
const KEEP = `printf '%s' "$NACRE_INSIDE" >"$state/settings"`

describe('isolation', () => {
  it('protects what this machine runs later, with a preset and without', () =>
    withStandIn(['docker'], async ({ open, project }) => {
      const git = (...args: string[]) => execFileSync('git', args, { cwd: project, encoding: 'utf8' })
      git('init', '-q')
      const planted = () =>
        ['.git/hooks/pre-commit', '.git/commondir', '.envrc', '.vscode/mcp.json'].filter((name) =>
          existsSync(path.join(project, name)),
        )
      const attack = `mkdir -p .vscode; for file in .git/hooks/pre-commit .git/commondir .envrc .vscode/mcp.json; do
        echo planted >$file; done 2>/dev/null; git config core.fsmonitor x`
      for (const isolation of ['workspace' as const, { processes: 'own' as const }]) {
        const sandbox = await open({ isolation })
        const { withheld } = await sandbox.exec(`${attack}; git remote add here https://example.com/x`)
        expect(withheld).toEqual(['core.fsmonitor'])
        expect(git('config', '--list')).not.toContain('fsmonitor')
        expect(git('config', 'remote.here.url')).toBe('https://example.com/x\n')
        git('remote', 'remove', 'here')
        await sandbox.destroy()
        expect(planted()).toEqual([])
      }
      const sandbox = await open({ isolation: { filesystem: { protect: [] } } })
      await sandbox.exec(attack)
      await sandbox.destroy()
      expect(planted()).toHaveLength(4)
    }))

  it('has the rules as they were given, apart from that', () =>
    withStandIn(['docker'], async ({ open, on, state }) => {
      on('exec', KEEP)
      const filesystem = { write: ['.'] }
      await open({ isolation: { bestEffort: true, network: 'none', filesystem } })
      expect(settingsOf(state).isolation).toEqual({
        ...{ preset: 'workspace', bestEffort: true, network: 'none', processes: 'host', filesystem },
      })
      await open({ isolation: 'read-only' })
      expect(settingsOf(state).isolation).toBe('read-only')
      await open()
      expect(settingsOf(state).isolation).toBe(undefined)
    }))
})

describe('copies of the files of nacre', () => {
  const MONTH = 31 * 24 * 3_600_000

  function age(name: string): string {
    const directory = path.join(process.env.XDG_CACHE_HOME ?? '', 'nacre/runtime', name)
    mkdirSync(directory, { recursive: true })
    const time = new Date(Date.now() - MONTH)
    utimesSync(directory, time, time)
    return directory
  }

  it('are the same after another installation, and so is the container', () =>
    withStandIn(['docker'], async ({ open, calls }) => {
      const file = path.join(path.dirname(path.dirname(__dirname)), 'dist/engine/inside.js')
      const { atime, mtime } = statSync(file)
      const { container } = await open()
      utimesSync(file, new Date(), new Date(mtime.getTime() - 1000))
      try {
        expect((await open()).container).toEqual(container)
      } finally {
        utimesSync(file, atime, mtime)
      }
      expect(readdirSync(path.join(process.env.XDG_CACHE_HOME ?? '', 'nacre/runtime'))).toHaveLength(1)
      expect(calls().filter((line) => line.startsWith('docker run'))).toHaveLength(1)
    }))

  it('stay as long as a container runs with them', () =>
    withStandIn(['docker', 'podman'], async ({ open, state }) => {
      for (const [name, status] of Object.entries({ long: 'running', ended: 'exited' })) {
        const labels = { 'dev.nacre': '1', 'dev.nacre.name': `nacre-${name}`, 'dev.nacre.runtime': name }
        writeFileSync(path.join(state, `c-nacre-${name}`), status)
        writeFileSync(path.join(state, `i-nacre-${name}`), `id-${name}\n`)
        writeFileSync(path.join(state, `l-nacre-${name}`), JSON.stringify(labels))
      }
      const [long, ended] = [age('long'), age('ended')]
      await open()
      expect([existsSync(long), existsSync(ended)]).toEqual([true, false])
    }))

  it('stay while an engine cannot say what its containers use', () =>
    withStandIn(['docker', 'podman'], async ({ open, on, state }) => {
      const old = age('old')
      on('info', `[ "$(basename "$0")" = docker ] || { echo broken >&2; exit 1; }`)
      await open()
      expect(existsSync(old)).toBe(true)
      rmSync(path.join(state, 'on-info'))
      for (const name of readdirSync(path.dirname(old)))
        if (name !== 'old') rmSync(path.join(path.dirname(old), name), { recursive: true })
      await open()
      expect(existsSync(old)).toBe(false)
    }))
})
