/** `nacre try`: what a command or a shell changed is shown, and becomes real or is discarded. */
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Process } from 'nacre'
import { describe, expect, it } from 'vitest'
import { type Cli, inTerminal, startInTerminal, withCli } from '../helpers/cli.js'
import { withSandbox } from '../helpers/invariants.js'

/** A directory with a file, for `--cwd`. */
function place({ root }: Cli): string {
  const directory = path.join(path.dirname(root), 'place')
  mkdirSync(directory)
  writeFileSync(path.join(directory, 'old'), 'old\n')
  return directory
}

const COMMAND = 'echo out; mkdir dir; echo new > new; rm old; exit 3'
const LISTED = 'out\ncreated  dir/\ncreated  new\ndeleted  old\n'

it('names the default directory once', () =>
  withCli(async ({ nacre }) => {
    expect((await nacre('try', '--help')).stdout).toMatch(
      /--cwd <directory> +the directory \(default: the present\s+one\)\n/,
    )
  }))

describe('without a terminal', () => {
  it('lists the changes and commits or discards them, with the exit code of the command', () =>
    withCli(async (cli) => {
      const cwd = place(cli)
      const names = (name: string) => existsSync(path.join(cwd, name))
      const discarded = await cli.nacre('try', '--cwd', cwd, '--then', 'discard', COMMAND)
      expect(discarded).toEqual({ code: 3, stdout: LISTED, stderr: '' })
      expect(['dir', 'new', 'old'].map(names)).toEqual([false, false, true])
      const committed = await cli.nacre('try', '--cwd', cwd, '--then', 'commit', COMMAND)
      expect(committed).toEqual({ code: 3, stdout: LISTED, stderr: 'nacre: committed 3 changes\n' })
      expect(['dir', 'new', 'old'].map(names)).toEqual([true, true, false])
      const none = await cli.nacre('try', '--cwd', cwd, '--then', 'commit', '--', 'ls')
      expect(none).toEqual({ code: 0, stdout: 'dir\nnew\n', stderr: 'nacre: nothing has changed\n' })
    }))

  it('says what is missing before anything runs', () =>
    withCli(async (cli) => {
      const cwd = place(cli)
      const unasked = await cli.nacre('try', '--cwd', cwd, 'touch new')
      expect(unasked).toMatchObject({ code: 2, stdout: '' })
      expect(unasked.stderr).toContain('add --then commit, discard or keep')
      expect((await cli.nacre('try', '--then', 'discard')).stderr).toContain('name a command')
      expect((await cli.nacre('try', '--cwd', `${cwd}/none`, 'true')).stderr).toContain('existing directory')
    }))

  it('reports a conflict, and changes nothing', () =>
    withCli(async (cli) => {
      const cwd = place(cli)
      const command = `echo mine > old; echo ready; until [ -e '${cwd}/../go' ]; do sleep 0.01; done`
      const running = cli.start(['try', '--cwd', cwd, '--then', 'commit', command])
      await running.printed('ready')
      writeFileSync(path.join(cwd, 'old'), 'theirs\n')
      writeFileSync(path.join(cwd, '../go'), '')
      const { code, stderr } = await running.ended
      expect([code, stderr]).toEqual([1, expect.stringContaining("other programs have changed 'old'")])
      expect(readFileSync(path.join(cwd, 'old'), 'utf8')).toBe('theirs\n')
    }))

  it('reports the first error, also when kept workspaces cannot be listed', () =>
    withCli(async (cli) => {
      const cwd = place(cli)
      const TMPDIR = path.join(cwd, '../temporary')
      mkdirSync(TMPDIR)
      const command = `echo mine > old; echo ready; until [ -e '${cwd}/../go' ]; do sleep 0.01; done`
      const running = cli.start(['try', '--cwd', cwd, '--then', 'commit', command], '', { TMPDIR })
      await running.printed('ready')
      writeFileSync(path.join(cwd, 'old'), 'theirs\n')
      // Other users could write there, so it is refused.
      chmodSync(path.join(TMPDIR, `nacre-${process.getuid?.()}/workspaces`), 0o777)
      writeFileSync(path.join(cwd, '../go'), '')
      const { code, stderr } = await running.ended
      expect([code, stderr]).toEqual([1, expect.stringContaining("other programs have changed 'old'")])
    }))
})

describe('on a terminal', () => {
  const asked = (terminal: Process, text: string | RegExp) => terminal.waitForLog(text)

  it('opens a shell, shows the diff, and asks until the answer is clear', () =>
    inTerminal('try', async (terminal, { directory }) => {
      await terminal.write("PS1='ready> '\n")
      await asked(terminal, 'ready> ')
      await terminal.write("printf 'one\\n\\033[31mtwo\\n' > new; exit\n")
      await asked(terminal, 'c: commit, d: show the diff, r: review hunk by hunk, k: keep as try-')
      expect(existsSync(path.join(directory, 'new'))).toBe(false)
      await terminal.write('?\nd\n')
      await asked(terminal, '+one')
      await asked(terminal, '\\u001b[31mtwo')
      await terminal.write('c\n')
      await asked(terminal, 'committed 1 change')
      expect(await terminal.waitForExit()).toMatchObject({ exitCode: 0 })
      expect(readFileSync(path.join(directory, 'new'), 'utf8')).toBe('one\n\x1b[31mtwo\n')
    }))

  it('can go back from a conflict, or overwrite', () =>
    inTerminal("try 'echo mine > file'", async (terminal, { directory }) => {
      await asked(terminal, 'c: commit')
      writeFileSync(path.join(directory, 'file'), 'theirs\n')
      await terminal.write('c\n')
      await asked(terminal, 'o: overwrite')
      await terminal.write('b\n')
      await asked(terminal, 'c: commit')
      await terminal.write('c\n')
      await asked(terminal, 'o: overwrite')
      await terminal.write('o\n')
      await asked(terminal, 'committed 1 change')
      expect(await terminal.waitForExit()).toMatchObject({ exitCode: 0 })
      expect(readFileSync(path.join(directory, 'file'), 'utf8')).toBe('mine\n')
    }))

  it('commits, takes back and leaves changes hunk by hunk', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const lines = Array.from({ length: 40 }, (_, line) => `${line}\n`).join('')
      writeFileSync(path.join(directory, 'lines'), lines)
      mkdirSync(path.join(directory, 'old'))
      const read = (file: string) => readFileSync(path.join(directory, file), 'utf8')
      const terminal = await startInTerminal(
        sandbox,
        `try "sed -i 's/^2$/two/; s/^20$/twenty/; s/^38$/last/' lines; mkdir dir node_modules .vscode; echo a > dir/a
          echo b > dir/b; echo c > node_modules/c; echo {} > .vscode/tasks.json; chmod 700 old"`,
      )
      await asked(terminal, '2 runs later on this machine, 5 source, 2 generated')
      await terminal.write('r\n')
      for (const [question, answer] of [
        ['created .vscode/tasks.json', 'n'],
        ['created dir/a', 'y'],
        ['created dir/b', 's'],
        ['hunk 1 of 3', 'y'],
        ['hunk 2 of 3', 'n'],
        ['hunk 3 of 3', 's'],
        ['metadata old', 'y'],
        ['1 generated,', 'n'],
      ] as const) {
        await asked(terminal, question)
        await terminal.write(`${answer}\n`)
      }
      await asked(terminal, 'discarded 5 changes')
      await asked(terminal, 'committed 4 changes')
      expect(read('lines')).toBe(lines.replace('\n2\n', '\ntwo\n'))
      expect(readdirSync(directory).sort()).toEqual(['dir', 'lines', 'old'])
      expect(readdirSync(path.join(directory, 'dir'))).toEqual(['a'])
      await terminal.write('r\ny\na\n')
      await asked(terminal, 'committed 2 changes')
      expect(await terminal.waitForExit()).toMatchObject({ exitCode: 0 })
      expect(read('lines')).toBe(lines.replace('\n2\n', '\ntwo\n').replace('\n38\n', '\nlast\n'))
      expect(read('dir/b')).toBe('b\n')
    }))

  it('takes answers that are typed before their questions', () =>
    inTerminal("try 'echo mine > file'", async (terminal, { directory }) => {
      await asked(terminal, 'c: commit')
      writeFileSync(path.join(directory, 'file'), 'theirs\n')
      await terminal.write('c\nb\n?\nc\no\n')
      await asked(terminal, 'committed 1 change')
      expect(await terminal.waitForExit()).toMatchObject({ exitCode: 0 })
      expect(readFileSync(path.join(directory, 'file'), 'utf8')).toBe('mine\n')
    }))

  it('asks again after an error, with nothing lost', () =>
    inTerminal("try 'echo mine > file; truncate -s 600M large'", async (terminal, { directory }) => {
      await asked(terminal, 'c: commit')
      await terminal.write('d\n')
      await asked(terminal, 'more than 512 MiB')
      await terminal.write('x\n')
      expect(await terminal.waitForExit()).toMatchObject({ exitCode: 0 })
      expect(existsSync(path.join(directory, 'file'))).toBe(false)
    }))

  it('keeps the changes when the input ends, and goes on with them later', () =>
    inTerminal("try 'echo mine > file'", async (terminal, { directory }) => {
      await asked(terminal, 'c: commit')
      await terminal.write('\x04')
      const { line } = await asked(terminal, /kept as (try-[0-9a-f]+)/)
      expect(await terminal.waitForExit()).toMatchObject({ exitCode: 0 })
      expect(existsSync(path.join(directory, 'file'))).toBe(false)
      const [, id = ''] = /kept as (\S+):/.exec(line) ?? []
      await withCli(async ({ nacre }) => {
        const more = await nacre('try', '--resume', id, '--then', 'commit', 'cat file; echo more > other')
        expect(more).toMatchObject({ code: 0, stdout: 'mine\ncreated  file\ncreated  other\n' })
        expect(readFileSync(path.join(directory, 'file'), 'utf8')).toBe('mine\n')
        expect((await nacre('workspace', 'diff', id)).stderr).toContain(`there is no workspace '${id}'`)
      })
    }))
})
