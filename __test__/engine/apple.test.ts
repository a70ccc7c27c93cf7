/** Apple's `container`, by a stand-in that refuses every option which its command reference does not list. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { type StandIn, withStandIn } from '../helpers/stand-in-engine.js'
import { rejectionOf } from '../helpers/thrown.js'

const withApple = (test: (engine: StandIn) => Promise<void>) => withStandIn(['container'], test)

describe("Apple's container", () => {
  it('runs commands, is kept, and starts again', () =>
    withApple(async ({ open, project, calls }) => {
      const first = await open({ env: { X: 'ä' } })
      expect((await first.exec('echo "$PWD $X"')).stdout).toBe(`${project} ä\n`)
      expect(first.container).toMatchObject({ engine: 'container', image: 'node:22' })
      await first.stop()
      const second = await open({ env: { X: 'b' } })
      expect(second.container?.name).toBe(first.container?.name)
      expect((await second.exec('echo $X')).stdout).toBe('b\n')
      expect(calls().map((line) => line.split(' ')[1])).toContain('start')
      expect(calls().filter((line) => line.startsWith('container run '))).toHaveLength(1)
    }))

  it('has the project, rights for isolation, and 4 GiB of memory', () =>
    withApple(async ({ open, project, calls }) => {
      await open({ isolation: { network: 'none', bestEffort: true } })
      await open({ memory: '2g', cpus: 2, network: 'none', isolation: { bestEffort: true } })
      const [plain = '', other] = calls().filter((one) => one.startsWith('container run '))
      for (const words of [
        `--volume ${project}:${project} `,
        ':/opt/nacre:ro ',
        '--cap-add CAP_SYS_ADMIN --cap-add CAP_NET_ADMIN --cap-add CAP_SYS_PTRACE',
        '--memory 4g --progress none node:22 --init 30000',
      ])
        expect(plain).toContain(words)
      expect(other).toContain('--network none --cpus 2 --memory 2g --progress none')
    }))

  it('is shared by clients that start at once', () =>
    withApple(async ({ open, calls }) => {
      const all = await Promise.all([open(), open(), open()])
      expect(new Set(all.map(({ container }) => container?.name)).size).toBe(1)
      for (const sandbox of all) expect((await sandbox.exec('echo there')).stdout).toBe('there\n')
      expect(calls().filter((line) => line.startsWith('container delete'))).toEqual([])
    }))

  it('keeps own directories in volumes that end with it', () =>
    withApple(async ({ open, on, project, state, calls }) => {
      const sandbox = await open({ own: ['node_modules'] })
      const { name } = sandbox.container ?? {}
      expect(calls().join('\n')).toContain(`--volume ${name}-own-0:${project}/node_modules `)
      const volumes = () => readdirSync(state).filter((file) => file.startsWith('vol-'))
      expect(volumes()).toEqual([`vol-${name}-own-0`])
      await sandbox.stop()
      on('exec', 'exit 9')
      expect(await rejectionOf(open({ own: ['node_modules'], fresh: true }))).toMatchObject({
        code: 'CONTAINER_FAILED',
      })
      expect(volumes()).toEqual([])
    }))

  it('forwards ports, and has a path with a colon', () =>
    withApple(async ({ open, project, calls }) => {
      const odd = path.join(path.dirname(project), 'a:b')
      mkdirSync(odd)
      await open({ mounts: [{ source: odd, readOnly: true }] })
      expect(calls().join('\n')).toContain(`--mount type=bind,source=${odd},target=${odd},readonly `)
    }))

  it.each([
    ['is not started', '{"status":"unregistered","apiServerVersion":""}', 1],
    ['does not run', '{"status":"not running","apiServerVersion":""}', 1],
  ])('that %s is named, with the remedy', (_, answer, code) =>
    withApple(async ({ open, on }) => {
      on('system status', `echo '${answer}'; exit ${code}`)
      const error = (await rejectionOf(open())) as Error
      expect(error).toMatchObject({ code: 'ENGINE_NOT_FOUND' })
      expect(error.message).toContain('its service does not answer. To start it: container system start')
    }),
  )

  it('of version 1.4 says its version at another place', () =>
    withApple(async ({ open, answers }) => {
      const version = 'container-apiserver version 1.4.1 (build: release, commit: 9a8917c)'
      answers('container', JSON.stringify({ status: 'running', server: { version } }))
      expect((await (await open()).exec('echo there')).stdout).toBe('there\n')
    }))

  it.each<[string, Record<string, string>, string, RegExp]>([
    [
      'an image without bash',
      { exec: 'echo "there is no bash" >&2; exit 70' },
      'IMAGE_WITHOUT_BASH',
      /has no bash/,
    ],
    [
      'an image for another processor',
      { 'image inspect': `echo '[{"variants":[{"platform":{"architecture":"s390x"}}]}]'; exit 0` },
      'RUNTIME_UNSUPPORTED',
      /is for s390x/,
    ],
    [
      'an image that cannot be pulled',
      { 'image inspect': 'exit 1', 'image pull': 'echo "Error: not found" >&2; exit 1' },
      'IMAGE_UNAVAILABLE',
      /run container image pull node:22/,
    ],
  ])('names %s', (_, scripts, code, message) =>
    withApple(async ({ open, on, state }) => {
      for (const [call, script] of Object.entries(scripts)) on(call, script)
      const error = (await rejectionOf(open())) as Error
      expect(error).toMatchObject({ code })
      expect(error.message).toMatch(message)
      expect(readdirSync(state).filter((file) => file.startsWith('c-'))).toEqual([])
    }),
  )

  it('has whole processors', () =>
    withApple(async ({ open }) => {
      expect(await rejectionOf(open({ cpus: 1.5 }))).toMatchObject({ code: 'INVALID_OPTION' })
    }))

  it('is not asked on Linux unless it is named, because another program may have the name', () =>
    withApple(async ({ open, calls }) => {
      // The machine may have others, which do not answer without their variables or have no such image.
      const opened = await open({ engine: 'auto', image: 'nacre.invalid/none', pull: 'never' }).catch(
        () => undefined,
      )
      expect(opened).toBe(undefined)
      expect(calls()).toEqual([])
    }))
})

it('the stand-in refuses other options', () =>
  withApple(async ({ state }) => {
    const refuse = (...words: string[]) => {
      try {
        execFileSync(path.join(path.dirname(state), 'container'), words, { stdio: 'pipe' })
        return ''
      } catch (error) {
        return String((error as { stderr: Buffer }).stderr)
      }
    }
    for (const option of ['--log-driver', '--security-opt', '--add-host', '--pids-limit', '--pull'])
      expect(refuse('run', '--detach', option, 'x', 'node:22')).toContain(`Unknown option '${option}'`)
    expect(refuse('inspect', '--format', '{{.}}', 'x')).toContain("Unknown option '--format'")
    expect(refuse('ps')).toContain("unexpected argument 'ps'")
  }))
