/** What the rules protect stays protected when programs of the machine replace it while a session lives. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { startHost } from '../helpers/host.js'
import { inWorkspaceOver } from '../helpers/in-workspace.js'
import { withoutInotify } from '../helpers/namespaces.js'

const git = (cwd: string, ...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x@x', ...args], { cwd, encoding: 'utf8' })

/** Files of the list, in a repository, a submodule and a nested repository. */
const FILES = [
  ...['.git/config', '.git/config.worktree', '.git/info/attributes', '.git/hooks/pre-commit', '.envrc'],
  ...['.npmrc', '.vscode/tasks.json', 'lefthook.yml', '.mcp.json', 'sub/nested/.git/config'],
  ...['sub/nested/.git/hooks/pre-commit', 'sub/nested/.envrc', '.git/modules/m/config'],
]

const inRepository = inWorkspaceOver(
  ({ directory }) => {
    git(directory, 'init', '-q', '-b', 'main')
    git(directory, 'commit', '-q', '--allow-empty', '-m', 'first')
    git(directory, 'init', '-q', 'sub/nested')
    git(directory, 'init', '-q', '--bare', '.git/modules/m')
    for (const file of FILES.map((name) => path.join(directory, name))) {
      mkdirSync(path.dirname(file), { recursive: true })
      if (!existsSync(file)) writeFileSync(file, '[real]\n')
    }
  },
  { isolation: 'workspace', env: { GIT_CONFIG_GLOBAL: '/dev/null' } },
)

/** How a program of the machine gives a file or a directory new content. */
const WAYS: Record<string, (file: string) => void> = {
  'renames another one over it': (file) => {
    writeFileSync(`${file}.new`, '[mine]\n')
    renameSync(`${file}.new`, file)
  },
  'deletes it and creates it again': (file) => {
    rmSync(file)
    writeFileSync(file, '[mine]\n')
  },
  'moves it away and creates it again': (file) => {
    renameSync(file, `${file}.old`)
    writeFileSync(file, '[mine]\n')
  },
  'exchanges it with another one': (file) => {
    writeFileSync(`${file}.new`, '[mine]\n')
    const program =
      'import ctypes, sys; sys.exit(ctypes.CDLL(None).renameat2(-100, sys.argv[1].encode(), -100, sys.argv[2].encode(), 2))'
    execFileSync('python3', ['-c', program, `${file}.new`, file])
  },
}

const attack = (name: string) =>
  `echo planted >>${name}; rm -f ${name}; echo planted >.new; mv -f .new ${name}; ln -sf /etc/passwd ${name}`

/** Those with other content, and it. */
const planted = (directory: string, names: string[]) =>
  names
    .map((name) => [name, readFileSync(path.join(directory, name), 'utf8')])
    .filter(([, text]) => text !== '[mine]\n')

/** Waits until something in the machine is as it should be. */
const until = async (condition: () => boolean) => {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5))
}

describe('a file of the list that a program of the machine replaces', () => {
  for (const [way, replace] of Object.entries(WAYS)) {
    it(
      `stays protected if it ${way}`,
      inRepository(async ({ sandbox, directory }) => {
        await sandbox.exec(':')
        // A hook lies in what is covered.
        const names = FILES.filter((name) => !name.includes('hooks/') && !name.includes('.vscode/'))
        for (let times = 0; times < 2; times++) {
          for (const name of names) replace(path.join(directory, name))
          await sandbox.exec(`{ ${names.map(attack).join('\n')}\n} 2>/dev/null; true`)
          expect(planted(directory, names)).toEqual([])
        }
      }),
    )
  }

  it(
    'stays protected from builtins that run at once',
    inRepository(async ({ sandbox, directory }) => {
      for (let times = 0; times < 20; times++) await sandbox.exec(':')
      const config = path.join(directory, '.git/config')
      for (let times = 0; times < 20; times++) {
        writeFileSync(`${config}.new`, '[mine]\n')
        renameSync(`${config}.new`, config)
        await sandbox.exec('echo "[core]" >>.git/config')
        expect(readFileSync(config, 'utf8')).toBe('[mine]\n')
      }
    }),
  )

  it(
    'stays protected from processes, files and jobs',
    inRepository(async ({ sandbox, directory }) => {
      const names = ['.envrc', '.git/config', '.vscode/tasks.json']
      // Each writes down its mounts until it may go on.
      const command = (seen: string) =>
        `until [ -e go ]; do cat /proc/self/mountinfo >.n${seen}; mv .n${seen} ${seen}; sleep 0.01; done
         { ${names.map(attack).join('\n')}\n} 2>/dev/null; true`
      const process = await sandbox.startProcess(command('a'))
      const { jobId } = await sandbox.jobs.start({ command: command('b') })
      const both = ['a', 'b'].map((name) => path.join(directory, name))
      const areBoth = (check: (file: string) => boolean) =>
        until(() => both.every((file) => existsSync(file) && check(file)))
      await areBoth(() => true)
      const replace = WAYS['renames another one over it'] as (file: string) => void
      for (const name of names) replace(path.join(directory, name))
      for (let times = 0; times < 3; times++) {
        for (const file of both) rmSync(file, { force: true })
        await areBoth((file) =>
          ['.envrc', '.git/config'].every((name) =>
            readFileSync(file, 'utf8').includes(` ${path.join(directory, name)} `),
          ),
        )
      }
      writeFileSync(path.join(directory, 'go'), '')
      await process.waitForExit()
      await sandbox.jobs.wait(jobId)
      await expect(sandbox.files.write('.envrc', 'planted\n')).rejects.toThrow(/\.envrc/)
      expect(planted(directory, names)).toEqual([])
    }),
  )

  it(
    'stays protected if the machine has no instance of inotify left',
    inRepository(async ({ directory }) => {
      // git replaces the file twice for one remote.
      const host = startHost(
        `const git = (...args) => require('child_process').execFileSync('git', ['-C', ${JSON.stringify(directory)}, ...args])
         const main = async () => {
           const sandbox = new Sandbox({ cwd: ${JSON.stringify(directory)}, isolation: 'workspace' })
           for (let times = 0; times < 20; times++) {
             git('remote', 'add', 'r' + times, 'https://example.com/r')
             await sandbox.exec('git config core.fsmonitor x', { check: true })
           }
           await sandbox.destroy()
         }
         main()`,
        withoutInotify,
      )
      expect([await host.ended(), host.output()]).toEqual([0, ''])
      expect(git(directory, 'remote').trim().split('\n')).toHaveLength(20)
      expect(readFileSync(path.join(directory, '.git/config'), 'utf8')).not.toContain('fsmonitor')
    }),
  )

  it(
    'stays a copy for git, from which harmless keys are written back',
    inRepository(async ({ sandbox, directory }) => {
      await sandbox.exec('git remote add one https://example.com/one', { check: true })
      git(directory, 'remote', 'add', 'two', 'https://example.com/two')
      const { withheld } = await sandbox.exec(
        'git remote add three https://example.com/three && git config core.fsmonitor x',
        { check: true },
      )
      expect(withheld).toEqual(['core.fsmonitor'])
      expect(git(directory, 'remote').split('\n').sort()).toEqual(['', 'one', 'three', 'two'])
    }),
  )
})

describe('a directory of the list that a program of the machine replaces', () => {
  const replaced: Record<string, (directory: string) => void> = {
    'a directory of hooks': (directory) => {
      rmSync(path.join(directory, '.git/hooks'), { recursive: true })
      mkdirSync(path.join(directory, '.git/hooks'))
    },
    'a repository that is moved away': (directory) => {
      renameSync(path.join(directory, '.git'), path.join(directory, 'old'))
      git(directory, 'init', '-q')
    },
    'a repository that is deleted': (directory) => {
      rmSync(path.join(directory, '.git'), { recursive: true })
      git(directory, 'init', '-q')
    },
    'the directory of an editor': (directory) => {
      renameSync(path.join(directory, '.vscode'), path.join(directory, 'old'))
      mkdirSync(path.join(directory, '.vscode'))
    },
    'a directory of a nested repository': (directory) => {
      renameSync(path.join(directory, 'sub'), path.join(directory, 'old'))
      mkdirSync(path.join(directory, 'sub'))
      git(directory, 'init', '-q', 'sub/nested')
    },
  }
  for (const [name, replace] of Object.entries(replaced)) {
    it(
      `stays protected: ${name}`,
      inRepository(async ({ sandbox, directory }) => {
        await sandbox.exec(':')
        replace(directory)
        const names = [
          '.git/hooks/pre-push',
          '.git/config.worktree',
          '.vscode/launch.json',
          'sub/nested/.git/hooks/x',
        ]
        const made = names.map((name) => `mkdir -p ${path.dirname(name)}; echo planted >${name}`)
        await sandbox.exec(`{ ${made.join('\n')}\necho '[planted]' >>.git/config; } 2>/dev/null; true`)
        const isPlanted = (name: string) =>
          existsSync(path.join(directory, name)) &&
          readFileSync(path.join(directory, name), 'utf8').includes('planted')
        expect([...names, '.git/config', 'sub/nested/.git/config'].filter(isPlanted)).toEqual([])
      }),
    )
  }
})

describe('a hidden file that a program of the machine replaces', () => {
  it(
    'stays hidden',
    inRepository(async ({ directory }) => {
      const file = path.join(directory, 'secret')
      writeFileSync(file, 'old')
      await using sandbox = new Sandbox({
        cwd: directory,
        isolation: { preset: 'workspace', filesystem: { hide: ['secret'] } },
      })
      expect((await sandbox.exec('cat secret')).stdout).toBe('')
      writeFileSync(`${file}.new`, 'new')
      renameSync(`${file}.new`, file)
      expect((await sandbox.exec('cat secret')).stdout).toBe('')
    }),
  )
})
