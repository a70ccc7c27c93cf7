/** exec in a container's session: state, scope, input, time, and what used to hang it. */
import { mkdirSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { itInSession, newSession } from '../helpers/drop-in.js'
import { withSandbox } from '../helpers/invariants.js'
import { rejectionOf } from '../helpers/thrown.js'

describe('exec', () => {
  itInSession('gives a result as containers know it', async ({ session }) => {
    const before = Date.now()
    const command = 'echo out; echo err >&2; (exit 5)'
    const result = await session.exec(command)
    expect(result).toMatchObject({ stdout: 'out', stderr: 'err', exitCode: 5, command })
    expect(Object.keys(result).sort().join()).toBe('command,duration,exitCode,stderr,stdout,timestamp')
    expect(result.duration).toBeGreaterThan(0)
    expect(Math.abs(Date.parse(result.timestamp) - before)).toBeLessThan(60_000)
    expect(new Date(result.timestamp).toISOString()).toBe(result.timestamp)
  })

  itInSession('strips exactly one newline', async ({ session }) => {
    const printed = async (text: string) =>
      (await session.exec(`printf '${text}'; printf '${text}' >&2`)).stdout
    expect(await printed('')).toBe('')
    expect(await printed('a')).toBe('a')
    expect(await printed('a\\n')).toBe('a')
    expect(await printed('a\\n\\n\\n')).toBe('a\n\n')
    expect(await printed('\\n')).toBe('')
    expect(await printed('a\\r\\n')).toBe('a\r')
    const { stderr } = await session.exec('printf "b\\n\\n" >&2')
    expect(stderr).toBe('b\n')
  })
})

describe('the environment of one command', () => {
  const hostile = {
    QUOTES: `'"'"' \\' "`,
    EXPANSIONS: '$HOME `id` $(id) ${x:-y} !! ~ * ?',
    LINES: 'a\nb\n\n',
    END: "'; exit 9; '",
    BRACES: '}; }; {',
    BLANK: '   ',
    EMPTY: '',
    UNICODE: 'é \u{1F600} \u200b',
    CONTROL: '\x01\x1b[31m\x7f\t\r',
  }

  itInSession('is exactly what was given, and the one before is restored exactly', async ({ session }) => {
    const names = Object.keys(hostile)
    const show = `for name in ${names.join(' ')}; do printf '%s=%s\\0' "$name" "\${!name-unset}"; done`
    const expected = (values: Record<string, string>) =>
      names.map((name) => `${name}=${values[name] ?? 'unset'}\0`).join('')
    expect((await session.exec(show, { env: hostile })).stdout).toBe(expected(hostile))
    expect((await session.exec(show)).stdout).toBe(expected({}))

    // The values before are hostile too, some exported, some not, some arrays.
    const { QUOTES, LINES, CONTROL } = hostile
    await session.exec('export QUOTES=$A LINES=$B; CONTROL=$C; declare -r FIXED=1; list=("a b" c)', {
      env: { A: QUOTES, B: LINES, C: CONTROL },
    })
    await session.exec('QUOTES=changed; LINES=changed; unset CONTROL', {
      env: { QUOTES: 'x', LINES: 'y', CONTROL: 'z' },
    })
    expect((await session.exec(show)).stdout).toBe(expected({ QUOTES, LINES, CONTROL }))
    expect(
      (await session.exec('export -p | grep -c -e QUOTES= -e LINES= -e CONTROL=; echo ${#list[@]}')).stdout,
    ).toBe('2\n2')
  })

  itInSession('skips what is not given', async ({ session }) => {
    await session.exec('export KEEP=1')
    const { stdout } = await session.exec('echo $KEEP $GIVEN', {
      env: { KEEP: undefined, ALSO: null, GIVEN: '2' },
    })
    expect(stdout).toBe('1 2')
  })
})

describe('the directory of one command', () => {
  itInSession('is a failed command when it is not there', async ({ session, directory }) => {
    const missing = path.join(directory, "no 'such' dir")
    const result = await session.exec('touch ran', { cwd: missing })
    expect(result).toMatchObject({ stdout: '', exitCode: 1, command: 'touch ran' })
    expect(result.stderr).toContain(`Failed to change directory to '${missing}'`)
    expect(result.duration).toBeGreaterThan(0)
    expect((await session.exec('ls; pwd')).stdout).toBe(directory)
  })

  itInSession(
    'can be deleted or become a link while the session is in it',
    async ({ session, directory }) => {
      const [here, there] = [path.join(directory, 'here'), path.join(directory, 'there')]
      mkdirSync(here)
      mkdirSync(there)
      await session.exec('cd here')
      renameSync(here, `${here}-moved`)
      symlinkSync(there, here)
      expect((await session.exec('echo $PWD; /bin/pwd -P')).stdout).toBe(`${here}\n${here}-moved`)
      expect((await session.exec('/bin/pwd -P', { cwd: here })).stdout).toBe(there)
      rmSync(`${here}-moved`, { recursive: true })
      expect((await session.exec('echo on', { cwd: '/' })).stdout).toBe('on')
      expect((await session.exec('cd / && echo on')).stdout).toBe('on')
    },
  )
})

describe('a timeout', () => {
  itInSession(
    'is that of the session where the command has none, and is named',
    async ({ session }) => {
      await session.exec('x=kept')
      const run = session.exec('echo $BASHPID; sleep 600 & sleep 600', { timeoutMs: 150 })
      expect(await rejectionOf(run)).toMatchObject({
        ...{ code: 'COMMAND_TIMEOUT', message: 'Command timeout after 150ms' },
      })
      expect((await rejectionOf(session.exec('sleep 600'))).message).toBe('Command timeout after 120ms')
      for (const timeoutMs of [60_000, 0])
        expect((await session.exec('sleep 0.2; echo long $x', { timeoutMs })).stdout).toBe('long kept')
      expect(session.isReady()).toBe(true)
    },
    { commandTimeoutMs: 120 },
  )
})

describe('what used to hang a session', () => {
  const cases: Array<[string, string]> = [
    ['an unbalanced quote', `echo "never closed`],
    ['an unterminated heredoc', 'cat <<END\ntext'],
    ['a lone brace', '}; }'],
    ['a lone fi', 'fi'],
    ['a trailing backslash', 'echo a \\'],
    ['no PATH', 'unset PATH'],
    [
      'functions with the names of programs',
      'mv() { :; }; cat() { exit 1; }; mkfifo() { return 1; }; rm() { :; }',
    ],
    [
      'functions with the names of builtins',
      'printf() { :; }; read() { return 1; }; echo() { :; }; wait() { :; }',
    ],
    ['a closed output', 'exec >/dev/null 2>&1'],
    ['a closed input', 'exec 0<&-'],
    ['options', 'set -f -u -C; shopt -s extglob'],
    ['IFS', 'IFS=abcdefgh/'],
    ['a trap for debugging', "trap 'echo debug >/dev/null' DEBUG"],
  ]
  it('does not any more', () =>
    withSandbox(async (workplace) => {
      for (const [name, command] of cases) {
        const session = newSession(workplace)
        await session.initialize()
        expect(typeof (await session.exec(command)).exitCode, name).toBe('number')
        expect((await session.exec('builtin printf "%s\\n" next')).stdout, name).toBe('next')
        expect(session.isReady(), name).toBe(true)
        await session.destroy()
      }
    }))
})
