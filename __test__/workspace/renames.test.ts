/**
 * Renames of directories in the workspace of an ordinary user, where the kernel refuses them: each has the result that it has
 * outside, is undone, and becomes real.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { startHost } from '../helpers/host.js'
import { asOrdinaryUser, giveToOrdinaryUser, obstacle } from '../helpers/ordinary-user.js'
import { temporary } from '../helpers/temporary.js'

const AS_AUTHOR = '-c user.email=a@b -c user.name=a'

/** Makes the files of a test in the working directory. */
const FIXTURE = `set -e
umask 022
mkdir -p a/b/c empty full other src/deep locked/sub
echo 1 > a/1; echo 2 > a/b/2; ln -s b a/link; mkfifo a/fifo; echo x > full/x; echo f > f; echo s > src/deep/s
chmod 640 a/1; chmod 750 a/b; chmod 1775 a/b/c; touch -d @1000000000 a/1 a/b/c a/b a; ln -s a toa
echo l > locked/sub/l; chmod 555 locked/sub locked
git init -q .; git add f src; git ${AS_AUTHOR} commit -qm x`

/** What is in the working directory: names, kinds, permissions, links and contents. */
const LOOK = `find . -path ./.git -prune -o -printf '%P %y %m %l\\n' | LC_ALL=C sort
find . -path ./.git -prune -o -type f -printf '%P ' -exec cat {} ';' | LC_ALL=C sort`

const named = (text: string) => JSON.stringify(text)
/** rename(2), with the number of its error. */
const rename = (from: string, to: string) =>
  `perl -e 'print rename(${named(from)}, ${named(to)}) ? "ok" : $!+0, "\\n"'`
/** renameat2(2) on x86-64 and on 64-bit ARM. */
const rename2 = (from: string, to: string, flags: number) =>
  `perl -MConfig -e '$n = $Config{archname} =~ /aarch64/ ? 276 : 316; $a = ${named(from)}; $b = ${named(to)};
    print syscall($n, -100, $a, -100, $b, ${flags}) == 0 ? "ok" : $!+0, "\\n"'`

const RENAMES: Record<string, string> = {
  'to a free name': rename('a', 'm'),
  'into another directory': rename('a', 'other/m'),
  'over an empty directory': rename('a', 'empty'),
  'over a directory with entries, which is refused': rename('a', 'full'),
  'over a file, which is refused': rename('a', 'f'),
  'into itself, which is refused': rename('a', 'a/b/x'),
  'over the directory that has it, which is refused': rename('a/b', 'a'),
  'into a missing directory, which is refused': rename('a', 'no/m'),
  'of a name that ends with a dot, which is refused': rename('a/.', 'm'),
  'of a name that ends with a slash': rename('a/', 'm/'),
  'that must not replace anything': `${rename2('a', 'empty', 1)}; ${rename2('a', 'm', 1)}`,
  'through a link': rename('toa/b', 'toa/m'),
  'by absolute paths': `perl -MCwd -e '$d = getcwd; print rename("$d/a", "$d/other/m") ? "ok" : $!+0'`,
  'through a parent': `cd other; ${rename('../a', 'm')}`,
  'through a descriptor of the program':
    'perl -MFcntl -e \'sysopen(D, "other", O_DIRECTORY); $n = fileno(D); print rename("a", "/proc/self/fd/$n/m") ? "ok" : $!+0\'',
  'of directories that cannot be written': `${rename('locked/sub', 'm')}; ${rename('locked', 'm')}`,
  'there and back': `${rename('a', 'm')}; ${rename('m', 'a')}`,
  'of what was renamed before': `${rename('a', 'm')}; ${rename('m', 'other/n')}; ${rename('other', 'o')}`,
  'by several programs at once': `${rename('a', 'm')} & ${rename('src', 'n')} & wait`,
  'while a program writes to a file in it':
    'perl -e \'open(F, ">>", "a/1"); print rename("a", "m") ? "ok" : $!+0; print F "later\\n"\'',
  'by git': 'git mv src lib; git status --short',
  'by Node.js': 'node -e \'fs.renameSync("a", "m")\'',
  'of a directory that a new one replaces': `${rename('src', 'lib')}; mkdir src; echo new > src/t`,
}

/** Runs a program in a host of an ordinary user, with two directories of that user that have the same files. Returns its result. */
async function asUser(program: string): Promise<unknown> {
  const place = temporary('nacre-renames-', '/var/tmp')
  for (const name of ['', 'outside', 'inside', 'state']) {
    mkdirSync(path.join(place, name), { recursive: true })
    giveToOrdinaryUser(path.join(place, name))
  }
  const host = startHost(
    `const { execFileSync } = require('child_process'), path = require('path'), fs = require('fs')
    const place = ${named(place)}, FIXTURE = ${named(FIXTURE)}, LOOK = ${named(LOOK)}
    const [outside, inside] = ['outside', 'inside'].map((name) => path.join(place, name))
    const bash = (text, cwd) => execFileSync('bash', ['-c', text], { cwd, encoding: 'utf8' })
    const options = { cwd: inside, stateDir: path.join(place, 'state'), env: { HOME: place, GIT_CONFIG_GLOBAL: '/dev/null' } }
    // Without the settings of the npm that runs the tests.
    const npm = 'env -i HOME="$HOME" PATH="$PATH" npm --offline --no-audit --no-fund --silent'
    const workspace = { mode: 'copy-on-write', undoSteps: 5 }
    for (const directory of [outside, inside]) bash(FIXTURE, directory)
    ;(async () => { ${program} })().then((found) => print(JSON.stringify(found)), (error) => print(String(error.stack)))`,
    asOrdinaryUser,
    { HOME: place, GIT_CONFIG_GLOBAL: '/dev/null' },
  )
  try {
    expect([await host.ended(60_000), host.output()]).toEqual([0, expect.stringMatching(/^[[{"]/)])
  } finally {
    execFileSync('chmod', ['-R', 'u+rwx', place])
  }
  return JSON.parse(host.output())
}

const hasWorkspaces = obstacle === undefined

describe.skipIf(!hasWorkspaces)('a rename by an ordinary user', () => {
  for (const [name, command] of Object.entries(RENAMES))
    it(`${name}: is as outside, undone, and becomes real`, async () => {
      const found = await asUser(`
        const command = 'umask 022; (' + ${named(command)} + ') 2>&1; ' + LOOK
        const expected = bash(command, outside)
        const sandbox = new Sandbox({ ...options, workspace })
        const before = (await sandbox.exec(LOOK)).stdout
        const seen = (await sandbox.exec(command)).stdout
        await sandbox.undo()
        const undone = (await sandbox.exec(LOOK)).stdout
        const again = (await sandbox.exec(command)).stdout
        await sandbox.workspace.commit()
        await sandbox.destroy()
        return { expected: [expected, before, expected, bash(LOOK, outside)], seen: [seen, undone, again, bash(LOOK, inside)] }`)
      const { expected, seen } = found as Record<string, string[]>
      expect(seen).toEqual(expected)
    })

  it('keeps times, and what programs have open', async () => {
    expect(
      await asUser(`
        const sandbox = new Sandbox({ ...options, workspace })
        const { stdout } = await sandbox.exec(\`exec 3>> a/1; stat -c %Y a a/1 a/b a/b/c > times
          ${rename('a', 'm')}; echo later >&3; cat m/1
          touch -d @1000000000 m/1; stat -c %Y m m/1 m/b m/b/c | cmp - times\`)
        await sandbox.destroy()
        return stdout`),
    ).toBe('ok\n1\nlater\n')
  })

  it('appears as a deleted and a created directory, and a discard takes it back', async () => {
    expect(
      await asUser(`
        const sandbox = new Sandbox({ ...options, workspace })
        await sandbox.exec('git mv src lib')
        const changes = (await sandbox.workspace.changes()).filter(({ path }) => !path.startsWith('.git'))
        await sandbox.workspace.discard({ paths: ['src', 'lib'] })
        const left = (await sandbox.exec('ls -d src/deep/s lib .nacre-* 2>/dev/null')).stdout
        await sandbox.destroy()
        return [changes.map(({ type, path }) => type + ' ' + path), left]`),
    ).toEqual([
      [
        'created lib',
        'created lib/deep',
        'created lib/deep/s',
        'deleted src',
        'deleted src/deep',
        'deleted src/deep/s',
      ],
      'src/deep/s\n',
    ])
  })

  it('is in a fork, and of one', async () => {
    expect(
      await asUser(`
        const sandbox = new Sandbox({ ...options, workspace })
        await sandbox.exec('git mv src lib')
        const [fork] = await sandbox.fork(1)
        const moved = (await fork.exec("node -e 'fs.renameSync(\\"lib\\", \\"more\\")'; ls more; ls lib")).stdout
        const own = (await sandbox.exec('ls lib')).stdout
        await fork.workspace.commit()
        for (const each of [fork, sandbox]) await each.destroy()
        return [moved, own, fs.existsSync(path.join(inside, 'src')), fs.readFileSync(path.join(inside, 'more/deep/s'), 'utf8')]`),
    ).toEqual(['deep\n', 'deep\n', false, 's\n'])
  })

  it('is also that of a file call', async () => {
    expect(
      await asUser(`
        const sandbox = new Sandbox({ ...options, workspace })
        await sandbox.files.rename('a', 'other/m')
        const refused = await sandbox.files.rename('src', 'full').catch(({ code }) => code)
        const { stdout } = await sandbox.exec('cat other/m/b/2; ls -d a src')
        await sandbox.destroy()
        return [refused, stdout]`),
    ).toEqual(['FILE_EXISTS', '2\nsrc\n'])
  })

  it('is left to the kernel where a process is in the directory, for an exchange, and in a nested namespace', async () => {
    expect(
      await asUser(`
        const sandbox = new Sandbox({ ...options, workspace })
        const run = async (command) => (await sandbox.exec(command)).stdout
        const found = [
          await run('(cd a/b; ' + ${named(rename('../../a', '../../m'))} + ')'),
          await run(${named(rename2('a', 'src', 2))}),
          await run('unshare -r ' + ${named(rename('a', 'm'))}),
          await run('setpriv --no-new-privs ' + ${named(rename('a', 'm'))}),
          await run('ls a src; ls -d m .nacre-* 2>/dev/null'),
        ]
        await sandbox.destroy()
        return found`),
    ).toEqual([...['18\n', '18\n', '18\n', '18\n'], 'a:\n1\nb\nfifo\nlink\n\nsrc:\ndeep\n'])
  })

  it('obeys the rules of isolation', async () => {
    expect(
      await asUser(`
        bash('mkdir -p closed/in src/hidden; echo k > closed/in/k', inside)
        const filesystem = { write: ['.'], protect: ['closed'], hide: ['src/hidden'] }
        const sandbox = new Sandbox({ ...options, workspace, isolation: { filesystem } })
        const run = async (command) => (await sandbox.exec(command)).stdout
        const found = [
          await run(${named(rename('a', 'm'))}),
          await run(${named(rename('m', 'closed/m'))}),
          await run(${named(rename('closed/in', 'm2'))}),
          await run(${named(rename('closed', 'm3'))}),
          await run(${named(rename('src', 'm4'))}),
          await run('ls m; ls -d src closed/in/k'),
        ]
        await sandbox.destroy()
        return found`),
    ).toEqual(['ok\n', '18\n', '18\n', '16\n', '18\n', '1\nb\nfifo\nlink\nclosed/in/k\nsrc\n'])
  })

  it('lets npm replace packages', async () => {
    const found = await asUser(`
      const make = \`for version in 1 2; do mkdir -p packages/$version/lib; echo "exports.version = $version" > packages/$version/lib/index.js
          echo "{\\\\"name\\\\":\\\\"dep\\\\",\\\\"version\\\\":\\\\"$version.0.0\\\\",\\\\"main\\\\":\\\\"lib/index.js\\\\"}" > packages/$version/package.json
          (cd packages/$version; \${npm} pack --pack-destination ..); done
        echo '{"name":"app","version":"1.0.0"}' > package.json
        \${npm} install ./packages/dep-1.0.0.tgz\`
      const update = npm + ' install ./packages/dep-2.0.0.tgz && node -p "require(\\'dep\\').version"; ' + LOOK
      for (const directory of [outside, inside]) bash(make, directory)
      const expected = bash(update, outside)
      const sandbox = new Sandbox({ ...options, workspace })
      const { stdout } = await sandbox.exec(update)
      await sandbox.destroy()
      return [stdout, expected]`)
    const [seen, expected] = found as string[]
    expect(seen).toBe(expected)
    expect(expected).toMatch(/^2\n/)
  })
})
