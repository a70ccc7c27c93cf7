/** A state that goes through a list of items: after the supervisor's death, and in plain mode before each command. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { killAtOnce, prepare } from '../helpers/family.js'
import type { Workplace } from '../helpers/invariants.js'
import { itInEveryMode, modes, plain, withSandboxIn } from '../helpers/modes.js'

/** bash prints this function in a form that it cannot read. */
const UNREADABLE = 'bad() { cat <<A && cat <<B && cat <<C\n1\nA\n2\nB\n3\nC\n}'

/** Makes a state that the next command finds in another bash. */
async function makeState(place: Workplace, isPlain: boolean, text: string): Promise<void> {
  if (isPlain) {
    await place.sandbox.exec(text)
    return
  }
  const { shell, supervisor } = await prepare(place, text)
  killAtOnce(supervisor, shell)
}

describe.each([
  ...modes.map((mode) => ({ ...mode, isPlain: false })),
  ...plain.map((mode) => ({ ...mode, isPlain: true })),
])('$name', ({ isPlain, ...mode }) => {
  const holds = (title: string, test: (place: Workplace) => Promise<void>) =>
    it(title, () => withSandboxIn(mode, test))

  holds('what bash cannot read loses only itself, and is named once', async (place) => {
    const { sandbox } = place
    await makeState(place, isPlain, `${UNREADABLE}\nzz() { echo z; }; set -o pipefail; trap 'echo t' USR1`)
    const look = await sandbox.exec('zz; [[ -o pipefail ]] && echo on; kill -USR1 $$; declare -F')
    expect(look.stdout).toBe('z\non\nt\ndeclare -f zz\n')
    expect(look.lostState).toEqual([{ kind: 'function', name: 'bad', reason: expect.any(String) }])
    expect((await sandbox.exec('true')).lostState).toBeUndefined()
  })

  holds('no value is evaluated or converted', async (place) => {
    const { sandbox, directory } = place
    const text = `x='8080 9090'; declare -i x; y='a[$(touch evaluated)]'; declare -i y; z=Release; declare -l z
      l=('b[$(touch evaluated)]' '1 +'); declare -i l; declare -A m; m['$(touch evaluated)']='$(touch evaluated)'`
    await makeState(place, isPlain, text)
    const { stdout, lostState } = await sandbox.exec(
      'printf "%s|" "$x" "$y" $z "${l[@]}" "${!m[@]}" "${m[@]}"',
    )
    expect(stdout).toBe(
      '8080 9090|a[$(touch evaluated)]|Release|b[$(touch evaluated)]|1 +|$(touch evaluated)|$(touch evaluated)|',
    )
    expect(lostState).toBeUndefined()
    expect(existsSync(path.join(directory, 'evaluated'))).toBe(false)
  })

  holds('options and disabled builtins disturb no other item', async (place) => {
    const { sandbox } = place
    const text = `shopt -s extglob
      f() { case $1 in !(a)) echo no ;; esac; }
      shopt -u extglob; git-st() { echo st; }
      alias '#x'=1; complete -W w -- -x; IFS=$'\\x01'; set -- 'p q'; pushd / >/dev/null
      enable -n eval test; set -o posix`
    await makeState(place, isPlain, text)
    const look = await sandbox.exec(
      'shopt -s extglob; f b; set +o posix; git-st; declare -F; alias; complete; echo "$1"; enable -n; dirs -l -p | wc -l',
    )
    expect(look.stdout).toBe(
      "no\nst\ndeclare -f f\ndeclare -f git-st\nalias #x='1'\ncomplete -W 'w' -x\np q\nenable -n eval\nenable -n test\n2\n",
    )
    expect(look.lostState).toBeUndefined()
  })

  holds('a function with any name that bash cannot read loses only itself', async (place) => {
    const { sandbox } = place
    await makeState(place, isPlain, `v=1; zz() { echo z; }\n${UNREADABLE.replace('bad', 'BEGIN')}`)
    const { stdout, lostState } = await sandbox.exec('echo $v; zz; pwd')
    expect(stdout).toBe(`1\nz\n${place.directory}\n`)
    expect(lostState).toMatchObject([{ kind: 'function', name: 'BEGIN' }])
  })

  holds('the file of the history is neither cut nor read', async (place) => {
    const { sandbox, directory } = place
    const file = path.join(directory, 'precious')
    writeFileSync(file, '1\n2\n3\n')
    await makeState(place, isPlain, `HISTFILESIZE=1; HISTFILE=precious`)
    expect((await sandbox.exec('echo $HISTFILESIZE $HISTFILE')).stdout).toBe('1 precious\n')
    expect(readFileSync(file, 'utf8')).toBe('1\n2\n3\n')
    await makeState(place, isPlain, 'set -o history; mkfifo fifo; HISTFILE=fifo')
    expect((await sandbox.exec('echo $HISTFILE; [[ -o history ]] && echo on')).stdout).toBe('fifo\non\n')
  })

  holds('limits of files and many functions cut nothing', async (place) => {
    const { sandbox } = place
    const many = 'for i in {1..6000}; do eval "f$i() { echo $i; }"; done'
    await makeState(place, isPlain, `TMPDIR=/proc; x=1; ${many}; ${isPlain ? ':' : 'ulimit -f 1'}`)
    const { stdout, lostState } = await sandbox.exec('f1; f6000; echo $x')
    expect([stdout, lostState]).toEqual(['1\n6000\n1\n', undefined])
  })

  holds('a directory that was removed is no other directory', async (place) => {
    const { sandbox, directory } = place
    writeFileSync(path.join(directory, 'precious'), '')
    mkdirSync(path.join(directory, 'gone'))
    await makeState(place, isPlain, 'cd gone')
    rmdirSync(path.join(directory, 'gone'))
    expect((await sandbox.exec('rm -f -- *; echo *; touch file')).stdout).toBe('*\n')
    expect(existsSync(path.join(directory, 'precious'))).toBe(true)
    expect((await sandbox.exec('cd "$OLDPWD" && pwd')).stdout).toBe(`${directory}\n`)
  })
})

it.each([
  ...modes.map((mode) => ({ ...mode, isPlain: false })),
  ...plain.map((mode) => ({ ...mode, isPlain: true })),
])('options from the environment do not act on what is restored, $name', ({ isPlain, ...mode }) =>
  withSandboxIn({ ...mode, env: { ...mode.env, SHELLOPTS: 'allexport:errexit' } }, async (place) => {
    await makeState(place, isPlain, `set +ae; secret=1\n${UNREADABLE}`)
    const { stdout, lostState } = await place.sandbox.exec('echo $secret; env | grep -c ^secret=')
    expect(stdout).toBe('1\n0\n')
    expect(lostState).toMatchObject([{ kind: 'function', name: 'bad' }])
  }),
)

it.each(plain)("a directory that is gone stays the session's, $name", (mode) =>
  withSandboxIn(mode, async ({ sandbox, directory }) => {
    mkdirSync(path.join(directory, 'gone'))
    await sandbox.exec('cd gone')
    rmdirSync(path.join(directory, 'gone'))
    const first = await sandbox.exec('pwd -P; echo "$PWD"', { env: { TMPDIR: '/proc/nonexistent' } })
    expect(first.stdout).not.toContain(`${directory}\n`)
    expect(first.cwd).toBe(path.join(directory, 'gone'))
    mkdirSync(path.join(directory, 'gone'))
    expect((await sandbox.exec('pwd')).stdout).toBe(`${directory}/gone\n`)
  }),
)

it.each(plain)('builtins that the engine uses can be disabled, $name', (mode) =>
  withSandboxIn(mode, async ({ sandbox }) => {
    await sandbox.exec('enable -n return printf declare trap; (exit 3)')
    expect((await sandbox.exec('echo $?; x=2')).stdout).toBe('3\n')
    expect((await sandbox.exec('echo $x; enable -n')).stdout).toBe(
      '2\nenable -n declare\nenable -n printf\nenable -n return\nenable -n trap\n',
    )
  }),
)

itInEveryMode('variables that were unset or hidden do not come back from the environment', async (place) => {
  const { sandbox } = place
  await prepare(place, 'unset HOME; export -n PATH; y=1; unset y')
  const { supervisor, shell } = await prepare(place, 'true')
  killAtOnce(supervisor, shell)
  expect((await sandbox.exec('echo "[$HOME]"; /usr/bin/env | grep -c -e ^HOME= -e ^PATH=')).stdout).toBe(
    '[]\n0\n',
  )
})

itInEveryMode('a renamed directory is followed, and an assigned PWD leads nowhere', async (place) => {
  const { sandbox, directory } = place
  mkdirSync(path.join(directory, 'old'))
  const { supervisor, shell } = await prepare(place, 'cd old; PWD=/')
  expect((await sandbox.exec('true')).cwd).toBe(path.join(directory, 'old'))
  renameSync(path.join(directory, 'old'), path.join(directory, 'new'))
  killAtOnce(supervisor, shell)
  expect((await sandbox.exec('echo $PWD; pwd')).stdout).toBe(`/\n${path.join(directory, 'new')}\n`)
})

itInEveryMode('$? and limits survive', async (place) => {
  const { sandbox } = place
  const { supervisor, shell } = await prepare(place, 'ulimit -Sn 222; x=1')
  await sandbox.exec('(exit 7)')
  killAtOnce(supervisor, shell)
  expect((await sandbox.exec('echo $? $(ulimit -Sn)')).stdout).toBe('7 222\n')
})

it.each([...modes, ...plain])(
  'variables of one command change options for that command only, $name',
  (mode) =>
    withSandboxIn(mode, async ({ sandbox }) => {
      const look = 'set +o; shopt -p'
      await sandbox.exec('shopt -s dotglob; set -o ignoreeof')
      const before = await sandbox.exec(look)
      for (const env of [
        { POSIXLY_CORRECT: '1' },
        { GLOBIGNORE: '*.o' },
        { IGNOREEOF: '3' },
        { HISTSIZE: '5' },
      ]) {
        await sandbox.exec('true', { env })
        expect((await sandbox.exec(look)).stdout, JSON.stringify(env)).toBe(before.stdout)
      }
      await sandbox.exec('set -o pipefail', { env: { POSIXLY_CORRECT: '1' } })
      expect((await sandbox.exec('[[ -o pipefail ]] && echo on')).stdout).toBe('on\n')
    }),
)

it.each([...modes, ...plain])('a coprocess of a former shell gives no warning, $name', (mode) =>
  withSandboxIn(mode, async ({ sandbox }) => {
    await sandbox.exec('coproc { sleep 300; }; kill -9 $COPROC_PID; true')
    await sandbox.exec('kill -9 $$')
    expect((await sandbox.exec('coproc { :; }; wait')).stderr).toBe('')
  }),
)
