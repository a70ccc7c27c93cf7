/** Variables of the environment that bash obeys before it runs anything. */
import { execFileSync } from 'node:child_process'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { modes, plain, withSandboxIn } from '../helpers/modes.js'
import { rejectionOf } from '../helpers/thrown.js'

const built = pathToFileURL(path.join(path.dirname(path.dirname(__dirname)), 'dist', 'index.js')).href

describe('SHELLOPTS', () => {
  for (const mode of [...modes, ...plain])
    it(`does not keep a session from running commands, ${mode.name}`, async () => {
      for (const SHELLOPTS of ['noexec', 'onecmd', 'noexec:noclobber:onecmd'])
        await withSandboxIn({ ...mode, env: { ...mode.env, SHELLOPTS } }, async ({ sandbox }) => {
          const printed = []
          for (const word of ['one', 'two', 'three'])
            printed.push((await sandbox.exec(`echo ${word}`)).stdout)
          expect(printed).toEqual(['one\n', 'two\n', 'three\n'])
          expect((await sandbox.exec('bash -c "echo inner; echo $-"')).stdout).toMatch(/^inner\n[^nt]*\n$/)
          const hasOption = (await sandbox.exec('[[ -o noclobber ]]')).exitCode === 0
          expect(hasOption).toBe(SHELLOPTS.includes('noclobber'))
        })
    })
})

describe('a function of the environment', () => {
  it.each(['enable', 'nacre', 'printf', 'exit', 'builtin'])(
    'named %s is called by nothing but commands',
    (name) => {
      const program = `
      const { Sandbox } = await import(${JSON.stringify(built)})
      const sandbox = new Sandbox()
      const { stdout } = await sandbox.exec('type -t ' + process.argv[1] + '; exec 9</dev/null')
      // Plain mode keeps no descriptors.
      const { exitCode } = await sandbox.exec('true <&9')
      console.log(JSON.stringify([stdout, exitCode]))
      await sandbox.destroy()`
      const env = { ...process.env, [`BASH_FUNC_${name}%%`]: '() { echo called; }' }
      const printed = execFileSync(process.execPath, ['--input-type=module', '-e', program, name], {
        encoding: 'utf8',
        env,
      })
      expect(JSON.parse(printed)).toEqual([name === 'builtin' ? 'builtin\n' : 'function\n', 0])
    },
  )
})

describe('a variable that is too large for a program', () => {
  it('is named in the error', async () => {
    await using sandbox = new Sandbox({ env: { SMALL: 'x', LARGE: 'x'.repeat(131_072) } })
    const error = await rejectionOf(sandbox.exec('true'))
    expect(error).toMatchObject({ code: 'SPAWN_FAILED' })
    expect(error.message).toContain(
      'the variable LARGE has 131072 bytes, and a program gets at most 131065 in one',
    )
  })
})
