import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { rejectionOf } from '../helpers/thrown.js'

describe('exec', () => {
  it('resolves with the output and code of a command', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const result = await sandbox.exec('echo out; echo err >&2; exit 3')
      expect(result).toMatchObject({
        success: false,
        exitCode: 3,
        signal: null,
        stdout: 'out\n',
        stderr: 'err\n',
        command: 'echo out; echo err >&2; exit 3',
        sessionId: 'default',
        cwd: directory,
        timedOut: false,
        cancelled: false,
        truncated: null,
        truncatedAt: null,
        sessionRestarted: false,
        denials: [],
      })
      expect(result.duration).toBeGreaterThanOrEqual(0)
      expect(Math.abs(Date.now() - result.startedAt.getTime())).toBeLessThan(60_000)
    }))

  it('keeps directory, variables and functions from command to command', () =>
    withSandbox(async ({ sandbox, directory }) => {
      mkdirSync(path.join(directory, 'app'))
      const first = await sandbox.exec('cd app && export API_KEY=secret && plain=1 && f() { echo "f $1"; }')
      expect(first.cwd).toBe(path.join(directory, 'app'))
      const second = await sandbox.exec('pwd; echo $API_KEY $plain; f x; bash -c "echo \\$API_KEY"')
      expect(second.stdout).toBe(`${directory}/app\nsecret 1\nf x\nsecret\n`)
    }))

  it('passes an argument list on without a shell', () =>
    withSandbox(async ({ sandbox }) => {
      const argv = ['printf', '%s|', 'a b', '$HOME', '*', "it's", '', 'a\nb', ';', '-n']
      const { stdout, command } = await sandbox.exec(argv)
      expect(stdout).toBe("a b|$HOME|*|it's||a\nb|;|-n|")
      expect(command).toContain("printf '%s|' 'a b'")
    }))

  it('applies cwd and env to one command only', () =>
    withSandbox(async ({ sandbox, directory }) => {
      mkdirSync(path.join(directory, 'sub'))
      await sandbox.exec('export KEPT=1 GONE=1')
      const options = { cwd: 'sub', env: { KEPT: '2', GONE: undefined, NEW: ' "\'$x\n' } }
      const inside = await sandbox.exec('pwd; echo "$KEPT ${GONE-unset}"; printf %s "$NEW"', options)
      expect(inside.stdout).toBe(`${directory}/sub\n2 unset\n "'$x\n`)
      const after = await sandbox.exec('pwd; echo "$KEPT $GONE ${NEW-unset}"')
      expect(after.stdout).toBe(`${directory}\n1 1 unset\n`)
    }))

  it('rejects for a directory that does not exist, and nothing runs', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const rejection = await rejectionOf(sandbox.exec('touch ran', { cwd: '/no/such/directory' }))
      expect(rejection).toMatchObject({ name: 'SandboxError', code: 'CWD_NOT_FOUND' })
      expect(rejection.message).toContain('/no/such/directory')
      expect((await sandbox.exec('ls', { cwd: directory })).stdout).not.toContain('ran')
    }))

  it('rejects with check when the command fails, with the result', () =>
    withSandbox(async ({ sandbox }) => {
      const rejection = await rejectionOf(sandbox.exec('echo x; false', { check: true }))
      expect(rejection).toMatchObject({ code: 'COMMAND_FAILED', result: { stdout: 'x\n', exitCode: 1 } })
      expect((await sandbox.exec('true', { check: true })).success).toBe(true)
    }))

  it('runs the commands of a session in the order of the calls', () =>
    withSandbox(async ({ sandbox }) => {
      const results = await Promise.all(
        Array.from({ length: 20 }, (_, index) => sandbox.exec(`n=$((n + 1)); echo ${index} $n`)),
      )
      expect(results.map(({ stdout }) => stdout)).toEqual(
        results.map((_, index) => `${index} ${index + 1}\n`),
      )
    }))

  it('runs commands of megabytes and with a thousand variables', () =>
    withSandbox(async ({ sandbox }) => {
      for (const size of [2 ** 19, 2 ** 21, 2 ** 23]) {
        const result = await sandbox.exec(`: ${'x'.repeat(size)}\necho done`)
        expect(result).toMatchObject({ stdout: 'done\n', exitCode: 0, sessionRestarted: false })
      }
      const env = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`V${index}`, `${index}`]))
      expect((await sandbox.exec('echo $V0 $V999', { env })).stdout).toBe('0 999\n')
    }))

  it('rejects at the first call when the directory of the sandbox does not exist', async () => {
    const sandbox = new Sandbox({ cwd: '/no/such/directory' })
    expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({ code: 'CWD_NOT_FOUND' })
    await sandbox.destroy()
  })

  it('gives a command only the environment of the options, with extendEnv false', () =>
    withSandbox(
      async ({ sandbox }) => {
        const { stdout } = await sandbox.exec('env')
        const names = stdout.match(/^\w+(?==)/gm) ?? []
        for (const name of ['PATH', 'HOME', 'LANG', 'ONLY']) expect(names).toContain(name)
        for (const name of Object.keys(process.env).filter((key) => key.startsWith('npm_'))) {
          expect(names).not.toContain(name)
        }
      },
      { options: { extendEnv: false, env: { ONLY: '1' } } },
    ))
})
