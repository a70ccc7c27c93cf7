/** What programs of the machine run later in a project, and git's daily work beside it. */
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import type { Isolation } from 'nacre'
import { describe, expect, it } from 'vitest'
import { temporary } from '../helpers/temporary.js'
import { BUILT, runInTier } from './run-in-tier.js'

/** Protected also where they are missing. */
const MASKED = [
  ...['hooks/pre-commit', 'hooks/post-checkout', 'config.worktree', 'commondir', 'info/attributes'].map(
    (name) => `.git/${name}`,
  ),
  ...['.git/remotes/x', '.git/branches/x'],
  ...['.gitattributes', '.githooks/pre-commit', '.husky/pre-commit', '.pre-commit-config.yaml', '.envrc'],
  ...['.tool-versions', '.mise.toml', '.mise/config.toml', '.vscode/tasks.json', '.vscode/settings.json'],
  ...['.vscode/launch.json', '.vscode/mcp.json', '.idea/workspace.xml', '.zed/tasks.json'],
  ...['.devcontainer/devcontainer.json', '.devcontainer.json', '.mcp.json', '.claude/settings.json'],
  ...['.claude/settings.local.json', '.cursor/mcp.json', '.codex/config.toml', '.gemini/settings.json'],
  ...['.windsurf/rules', '.aider.conf.yml', '.npmrc', '.yarnrc', '.cargo/config.toml', '.cargo/config'],
]
/** Protected where they exist. */
const KEPT = [
  ...['.gitmodules', 'lefthook.yml', 'mise.toml', 'opencode.json', '.yarnrc.yml', '.yarn/releases/yarn.cjs'],
  ...['.yarn/plugins/a.cjs', '.pnpmfile.cjs', 'bunfig.toml', 'rust-toolchain.toml', '.bazelrc', 'pip.conf'],
  ...[
    'nested/.git/config',
    'nested/.git/hooks/pre-commit',
    '.git/modules/sub/config',
    '.git/modules/sub/hooks/x',
  ],
]

const git = (cwd: string, ...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x@x', ...args], {
    cwd,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  })

/** A directory with a repository in `work`. */
function inRepository(place: string, test: (root: string, work: string) => void): () => void {
  return () => {
    const root = realpathSync(mkdtempSync(path.join(place, 'nacre-projects-')))
    const work = path.join(root, 'work')
    try {
      mkdirSync(work)
      git(work, 'init', '-q', '-b', 'main')
      git(work, 'commit', '-q', '--allow-empty', '-m', 'first')
      test(root, work)
    } finally {
      rmSync(root, { recursive: true, force: true })
    }
  }
}

const write = (file: string, text: string) => {
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, text)
}

const plant = (name: string) =>
  `mkdir -p ${path.dirname(name)}; echo planted > ${name}; rm -rf ${name}; echo planted > .new; mv .new ${name}; ln -sf /etc/passwd ${name}`

const isPlanted = (file: string) => {
  const found = lstatSync(file, { throwIfNoEntry: false })
  return (
    found?.isSymbolicLink() === true ||
    (found?.isFile() === true && readFileSync(file, 'utf8') === 'planted\n')
  )
}

const presets: Isolation[] = [
  'workspace',
  'workspace+network',
  { preset: 'workspace', filesystem: { write: ['.'] } },
]

/** A package of npm and a crate, which need nothing else. */
const BUILT_FILES = {
  'package.json': JSON.stringify({
    ...{ name: 'x', version: '1.0.0', dependencies: { dependency: 'file:dependency' } },
    scripts: { postinstall: 'node -e "require(\'dependency\')" > node_modules/built' },
  }),
  'package-lock.json': JSON.stringify({
    ...{ name: 'x', version: '1.0.0', lockfileVersion: 3 },
    packages: {
      '': { name: 'x', version: '1.0.0', dependencies: { dependency: 'file:dependency' } },
      dependency: { version: '1.0.0' },
      'node_modules/dependency': { resolved: 'dependency', link: true },
    },
  }),
  'dependency/package.json': JSON.stringify({ name: 'dependency', version: '1.0.0' }),
  'dependency/index.js': 'console.log("installed")\n',
  'Cargo.toml': '[package]\nname = "x"\nversion = "1.0.0"\nedition = "2021"\n[workspace]\n',
  'src/main.rs': 'fn main() { println!("compiled") }\n',
}

/** What builds them. An ordinary user may have no cargo. */
const BUILD = `exec 2>&1; npm ci --no-audit --no-fund >log || cat log; cat node_modules/built
  ! cargo --version >log || { cargo build -q && target/debug/x; }; rm log; git status --porcelain .`

const repository = (directory: string) => {
  git(path.dirname(directory), 'init', '-q', '-b', 'main', path.basename(directory))
  write(path.join(directory, '.gitignore'), '*.git\nnew\ncloned\nwt\nnode_modules\ntarget\nCargo.lock\n')
  for (const [name, text] of Object.entries(BUILT_FILES)) write(path.join(directory, name), text)
  git(directory, 'add', '-A')
  git(directory, 'commit', '-q', '-m', 'first')
}

/** Where git's directories are, seen from the directory of the sandbox: `work` in what these return. */
const places: Record<string, (root: string) => string> = {
  'a main checkout': (root) => {
    const work = path.join(root, 'work')
    repository(work)
    // Inside, since the rest of /tmp is hidden.
    git(work, 'clone', '-q', '--bare', '.', 'library.git')
    git(work, '-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', './library.git', 'sub')
    git(work, 'commit', '-q', '-m', 'submodule')
    git(work, 'submodule', '--quiet', 'deinit', '-f', 'sub')
    rmSync(path.join(work, '.git/modules'), { recursive: true })
    return root
  },
  'a linked worktree': (root) => {
    repository(path.join(root, 'main'))
    git(path.join(root, 'main'), 'worktree', 'add', '-q', '../work')
    return root
  },
  'a submodule': (root) => {
    repository(path.join(root, 'library'))
    repository(path.join(root, 'super'))
    const above = path.join(root, 'super')
    git(above, '-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', '../library', 'work')
    return above
  },
  'a sub-directory': (root) => {
    repository(path.join(root, 'above'))
    for (const [name, text] of Object.entries(BUILT_FILES)) write(path.join(root, 'above/work', name), text)
    git(path.join(root, 'above'), 'add', '-A')
    git(path.join(root, 'above'), 'commit', '-q', '-m', 'kept')
    return path.join(root, 'above')
  },
}

/** Commands of every day, in a repository with a remote that programs may write. The first that fails shows its error. */
const DAILY = `exec 2>&1; bash -euc '
  export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@x
  export GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always
  export GIT_CONFIG_KEY_1=advice.skippedCherryPicks GIT_CONFIG_VALUE_1=false
  trap "echo failed: \\$BASH_COMMAND" ERR
  test ! -e .gitmodules || git submodule --quiet update --init 2>/dev/null
  git init -q --bare -b main remote.git; base=$(git branch --show-current)
  test -n "$base" || { base=base; git switch -q -c base; }
  echo one >a; git add a; git commit -qm one; git commit -q --amend -m one
  git remote add here "$PWD/remote.git"; git push -q -u here HEAD:main; git fetch -q here
  git switch -q -c x --track here/main; echo two >b; git add b; git commit -qm two
  git switch -q "$base"; git merge -q x; git switch -q -c y HEAD~1
  echo three >c; git add c; git commit -qm three; git cherry-pick x >/dev/null; git rebase -q "$base"
  git tag v1; git tag -a -m v2 v2; git push -q here v1 y; git pull -q --rebase here main
  echo more >>a; git stash -q; git stash pop -q; git checkout -q -- a; git restore a; git reset -q --hard
  git mv c d; git commit -qm moved; git rm -q d; git commit -qm removed; git revert --no-edit HEAD >/dev/null
  git branch -q -D x; git worktree add -q --detach wt; git -C wt status -s; git worktree remove wt
  git notes add -m note; git reflog >/dev/null; git blame a >/dev/null; git describe >/dev/null; git diff "$base" >/dev/null
  git init -q new; git -C new config a.b c; git clone -q remote.git cloned; git -C cloned log >/dev/null
  git gc -q; git fsck --no-progress >/dev/null; git status --porcelain .; rm -rf remote.git new cloned; echo all done'`

/** What daily git may leave in a config of the machine. */
const HARMLESS =
  /^(branch\.\w+\.(remote|merge)|remote\.here\.(url|fetch)|submodule\.sub\.(url|active))=[\w./+*:-]+$/

describe('with namespaces', () => {
  const run = (root: string, isolation: Isolation, ...commands: string[]) =>
    runInTier('', root, isolation, ...commands)

  for (const isolation of presets)
    it(
      `${JSON.stringify(isolation)} keeps programs from creating what the machine runs later, and leaves nothing behind`,
      inRepository('/var/tmp', (root, work) => {
        const listed = () => [
          readdirSync(work),
          readdirSync(path.join(work, '.git')).filter((name) => name !== 'index'),
          readdirSync(path.join(work, '.git/info')),
        ]
        const before = listed()
        const seen = run(
          root,
          isolation,
          `{ ${MASKED.map(plant).join('\n')}\n} 2>/dev/null; rm -f .new; git status --porcelain; git add -A; git status --porcelain; touch file && ls`,
        )
        expect(seen).toBe('file\n')
        expect(MASKED.filter((name) => isPlanted(path.join(work, name)))).toEqual([])
        rmSync(path.join(work, 'file'))
        expect(listed()).toEqual(before)
      }),
    )

  it(
    'keeps programs from changing what exists, also in submodules and nested repositories',
    inRepository('/var/tmp', (root, work) => {
      git(work, 'init', '-q', 'nested')
      git(work, 'init', '-q', '--bare', '.git/modules/sub')
      const all = [...MASKED, ...KEPT].filter((name) => name !== '.git/commondir')
      const names = all.filter((name) => !all.some((other) => other.startsWith(`${name}/`)))
      const configs = names.filter(
        (name) => name.endsWith('.git/config') || name === '.git/modules/sub/config',
      )
      const files = names.filter((name) => !configs.includes(name))
      for (const name of files) write(path.join(work, name), 'real\n')
      const texts = configs.map((name) => readFileSync(path.join(work, name), 'utf8'))
      const directories = [...new Set(names.map((name) => path.dirname(name)))].filter((name) => name !== '.')
      const attack = [
        ...names.map(plant),
        ...directories.map((name) => `mv ${name} ${name}.old; mkdir -p ${name}`),
        'mv .git .gone; mv nested/.git nested/gone; rm -rf .vscode .claude .cargo .husky .yarn/releases',
      ]
      run(root, 'workspace', `{ ${attack.join('\n')}\n} 2>/dev/null; true`)
      expect(files.filter((name) => readFileSync(path.join(work, name), 'utf8') !== 'real\n')).toEqual([])
      expect(configs.map((name) => readFileSync(path.join(work, name), 'utf8'))).toEqual(texts)
    }),
  )

  it(
    'keeps changes of the config in the session that could run a program',
    inRepository('/var/tmp', (root, work) => {
      const text = readFileSync(path.join(work, '.git/config'), 'utf8')
      const seen = run(
        root,
        'workspace',
        "git config core.fsmonitor 'touch /var/tmp/escaped'; git config core.fsmonitor; git config a.b c && git config a.b",
      )
      expect(seen).toBe('touch /var/tmp/escaped\nc\n')
      expect(readFileSync(path.join(work, '.git/config'), 'utf8')).toBe(text)
    }),
  )

  it(
    'protects nothing with an empty list, and what a list names besides',
    inRepository('/var/tmp', (root, work) => {
      write(path.join(work, 'mine'), 'real\n')
      const attack = 'echo planted > .envrc; echo planted > mine; echo planted > .git/hooks/pre-commit'
      const protect = (list: string[]): Isolation => ({ preset: 'workspace', filesystem: { protect: list } })
      run(root, protect(['mine']), attack)
      expect(
        ['.envrc', 'mine', '.git/hooks/pre-commit'].filter((name) => isPlanted(path.join(work, name))),
      ).toEqual([])
      run(root, protect([]), attack)
      expect(['.envrc', 'mine'].filter((name) => !isPlanted(path.join(work, name)))).toEqual([])
    }),
  )

  it('masks nothing where there is no repository, so that one can be cloned', () => {
    const root = temporary('nacre-projects-', '/var/tmp')
    mkdirSync(path.join(root, 'work'))
    git(root, 'init', '-q', '-b', 'main', 'other')
    git(path.join(root, 'other'), 'commit', '-q', '--allow-empty', '-m', 'first')
    const seen = run(
      root,
      'workspace',
      'ls -A; git clone -q ../other . && git log --format=%s; git init -q new && ls',
    )
    expect(seen).toBe('first\nnew\n')
  })

  it(
    'protects a project that a mount shows at another place',
    inRepository('/var/tmp', (root, work) => {
      const text = readFileSync(path.join(work, '.git/config'), 'utf8')
      const target = `/home/nacre-${process.pid}/project`
      const isolation: Isolation = {
        preset: 'workspace',
        filesystem: { mounts: [{ source: work, target }] },
      }
      const attack = 'echo planted | tee .envrc .git/hooks/pre-commit .git/config.worktree'
      const command = `${attack} >/dev/null 2>&1; git config a.b c && git config a.b; git status --porcelain; pwd`
      const program = `
        const { Sandbox } = await import(${JSON.stringify(BUILT)})
        const sandbox = new Sandbox({ cwd: '${target}', isolation: ${JSON.stringify(isolation)} })
        console.log((await sandbox.exec(${JSON.stringify(command)}, { mergeOutput: true })).all)
        await sandbox.destroy()`
      const seen = execFileSync(process.execPath, ['--input-type=module', '-e', program], {
        cwd: root,
        encoding: 'utf8',
      })
      expect(seen).toBe(`c\n${target}\n\n`)
      expect(
        ['.envrc', '.git/hooks/pre-commit', '.git/config.worktree'].filter((name) =>
          existsSync(path.join(work, name)),
        ),
      ).toEqual([])
      expect(readFileSync(path.join(work, '.git/config'), 'utf8')).toBe(text)
    }),
  )

  for (const place of ['/var/tmp', '/tmp'])
    for (const [name, prepare] of Object.entries(places))
      it(`daily git works in ${name} below ${place}`, () => {
        const root = realpathSync(mkdtempSync(path.join(place, 'nacre-projects-')))
        try {
          const above = prepare(root)
          const found = execFileSync('find', [root, '-name', 'config', '-path', '*.git*'], {
            encoding: 'utf8',
          })
          const lines = () =>
            found
              .trim()
              .split('\n')
              .flatMap((file) => git('/', 'config', '--list', '--file', file).trim().split('\n'))
          const before = lines()
          expect(run(above, 'workspace', DAILY)).toBe('all done\n')
          const after = lines()
          // `git push -u` gives the branch another remote.
          const lost = before.filter((line) => !after.includes(line))
          expect(lost.filter((line) => line !== 'branch.main.remote=origin')).toEqual([])
          const added = after.filter((line) => !before.includes(line))
          const work = path.join(above, 'work')
          expect(added).toContain(`remote.here.url=${work}/remote.git`)
          expect(added.filter((line) => !HARMLESS.test(line))).toEqual([])
          expect(added.some((line) => line.startsWith('submodule.'))).toBe(name === 'a main checkout')
          expect(git(work, 'log', '-1', '--format=%s', 'y')).toBe('Revert "removed"\n')
          expect(git(work, 'status', '--porcelain', '.')).toBe('')
        } finally {
          rmSync(root, { recursive: true, force: true })
        }
      }, 60_000)
})

describe('builds', () => {
  for (const [name, prepare] of Object.entries(places))
    it(`work in ${name}, and leave nothing that the machine runs later`, () => {
      const root = temporary('nacre-projects-', '/var/tmp')
      const above = prepare(root)
      const work = path.join(above, 'work')
      const seen = runInTier('', above, 'workspace', BUILD)
      expect(['installed\ncompiled\n', 'installed\n']).toContain(seen)
      expect(existsSync(path.join(work, 'node_modules/dependency/index.js'))).toBe(true)
      expect(['.npmrc', '.cargo', '.husky'].filter((file) => existsSync(path.join(work, file)))).toEqual([])
    }, 60_000)
})

describe('with Landlock alone', () => {
  it('daily git works in a main checkout, and the notes say what is not protected', () => {
    const root = temporary('nacre-projects-', '/var/tmp')
    places['a main checkout']?.(root)
    expect(runInTier('landlock', root, 'workspace', DAILY)).toBe('all done\n')
  }, 60_000)
})
