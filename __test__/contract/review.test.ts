/** Reviews and hunks are the same here and over HTTP. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { HunkChoice, Review } from 'nacre'
import { describe, expect } from 'vitest'
import { rejectionOf } from '../helpers/thrown.js'
import { type ContractPlace, itHolds } from './helper.js'

const LINES = Array.from({ length: 30 }, (_, line) => `line ${line}\n`)
const UNICODE = 'dir/gr\u00fc\u00dfe \u65e5.txt'

function holds(name: string, test: (place: ContractPlace) => Promise<void>): void {
  const prepared = async (place: ContractPlace) => {
    const { directory } = place
    mkdirSync(path.join(directory, 'dir'))
    const write = (file: string, content: string | Buffer) =>
      writeFileSync(path.join(directory, file), content)
    write('lines', LINES.join(''))
    write('crlf', LINES.join('').replaceAll('\n', '\r\n'))
    write(UNICODE, 'one\ntwo')
    write('binary', Buffer.from([1, 0]))
    write('package-lock.json', '{\n}\n')
    write('.gitignore', '/out\n')
    write('moved', LINES.join(''))
    await test(place)
  }
  itHolds(name, prepared, { options: { workspace: { mode: 'copy-on-write', undoSteps: 5 } } })
}

const edit = (file: string, ...numbers: number[]) =>
  numbers.map((line) => `sed -i 's/^line ${line}\\b/changed ${line}/' '${file}'`).join(';')

const names = (review: Review) =>
  Object.fromEntries(
    Object.entries(review).map(([group, changes]) => [
      group,
      (changes as Review['source']).map(({ path, added, removed, hunks, reason, withoutHunks }) =>
        [path, added, removed, hunks.length, reason, withoutHunks]
          .filter((one) => one !== undefined)
          .join(' '),
      ),
    ]),
  )

describe('a review', () => {
  holds('has each change in the first group that fits', async ({ sandbox }) => {
    await sandbox.exec(
      [
        edit('lines', 3, 25),
        `printf 'one\\nthree' > '${UNICODE}'`,
        'printf "\\0" > binary; echo "{ }" > package-lock.json; chmod 700 dir; mv moved renamed',
        'mkdir out node_modules .vscode; echo 1 > out/a; echo 1 > node_modules/b; echo "{}" > .vscode/tasks.json',
        "head -c 2000000 /dev/zero | tr '\\0' a > large; echo '/lines' > .gitignore; : > empty; ln -s lines link",
      ].join(';'),
    )
    const tasks = 'the editor runs its tasks, launches and the programs that its settings name'
    expect(names(await sandbox.workspace.review())).toEqual({
      runsLater: [`.vscode 0 0 0 ${tasks} kind`, `.vscode/tasks.json 1 0 1 ${tasks}`],
      generated: [
        'node_modules 0 0 0 in a directory of dependencies or outputs generated',
        'node_modules/b 0 0 0 in a directory of dependencies or outputs generated',
        'out 0 0 0 ignored by git generated',
        'out/a 0 0 0 ignored by git generated',
        'package-lock.json 1 2 1 a lock file',
      ],
      large: ['large 0 0 0 large'],
      binary: ['binary 0 0 0 binary'],
      source: [
        '.gitignore 1 1 1',
        'dir 0 0 0 kind',
        `${UNICODE} 1 1 1`,
        'empty 0 0 0',
        'lines 2 2 2',
        'link 0 0 0 kind',
        'moved 0 30 1',
        'renamed 30 0 1',
      ],
    })
    const { source } = await sandbox.workspace.review({ paths: [UNICODE] })
    expect(source[0]?.hunks).toEqual([
      {
        ...{
          id: expect.stringMatching(/^[0-9a-f]{16}$/),
          beforeStart: 1,
          beforeLines: 2,
          start: 1,
          lines: 2,
        },
        ...{ added: 1, removed: 1 },
        text: '@@ -1,2 +1,2 @@\n one\n-two\n\\ No newline at end of file\n+three\n\\ No newline at end of file\n',
      },
    ])
    const small = await sandbox.workspace.review({ maxBytes: 1 })
    expect(small.source.find(({ path }) => path === 'lines')).toMatchObject({
      ...{ added: 2, removed: 2, hunks: [], withoutHunks: 'maxBytes' },
    })
  })
})

describe('hunks', () => {
  const idsOf = async ({ sandbox }: ContractPlace, file: string) =>
    (await sandbox.workspace.review({ paths: [file] })).source[0]?.hunks.map(({ id }) => id) ?? []

  for (const file of ['lines', 'crlf'])
    holds(`of ${file} are discarded one by one, and undone`, async (place) => {
      const { sandbox, directory } = place
      const real = readFileSync(path.join(directory, file), 'utf8')
      await sandbox.exec(`chmod 600 '${file}'; ${edit(file, 2, 15, 28)}`)
      const all = await idsOf(place, file)
      expect(all).toHaveLength(3)
      const [first = '', second = '', third = ''] = all
      const take = (...ids: string[]) => sandbox.workspace.discard({ hunks: [{ path: file, ids }] })
      expect(await take(second)).toEqual({ discarded: 1 })
      expect(await idsOf(place, file)).toEqual([first, third])
      const seen = async () => (await sandbox.exec(`stat -c %a ${file}; cat ${file}`)).stdout
      expect(await seen()).toBe(
        `600\n${real.replace('line 2', 'changed 2').replace('line 28', 'changed 28')}`,
      )
      expect(await rejectionOf(take(second))).toMatchObject({
        code: 'FILE_NOT_FOUND',
        message: `'${file}' cannot be taken by hunks: hunk ${second} is not there any more`,
      })
      await sandbox.exec('echo more >> dir/more')
      await take(first, third)
      expect(await sandbox.workspace.changes({ paths: [file] })).toEqual([])
      await sandbox.undo()
      expect(await idsOf(place, file)).toEqual([first, third])
      expect(readFileSync(path.join(directory, file), 'utf8')).toBe(real)
    })

  holds('are committed, and the others stay', async (place) => {
    const { sandbox, directory } = place
    const real = (file: string) => readFileSync(path.join(directory, file), 'utf8')
    await sandbox.exec(`${edit('lines', 2, 28)}; printf 'zero\\none\\ntwo' > '${UNICODE}'; echo b > binary`)
    const [first = '', second = ''] = await idsOf(place, 'lines')
    const hunks: HunkChoice[] = [
      { path: Buffer.from('lines'), ids: [second] },
      { path: UNICODE, ids: await idsOf(place, UNICODE) },
    ]
    expect(await sandbox.workspace.commit({ hunks })).toEqual({ applied: 2, skipped: [] })
    expect(real('lines')).toBe(LINES.join('').replace('line 28', 'changed 28'))
    expect(real(UNICODE)).toBe('zero\none\ntwo')
    expect((await sandbox.exec('sed -n 3p lines')).stdout).toBe('changed 2\n')
    expect((await sandbox.workspace.changes()).map(({ path }) => path)).toEqual(['binary', 'lines'])
    expect(await idsOf(place, 'lines')).toEqual([first])
    const more = { paths: ['binary'], hunks: [{ path: 'lines', ids: [first] }] }
    expect(await sandbox.workspace.commit(more)).toEqual({ applied: 2, skipped: [] })
    expect(await sandbox.workspace.changes()).toEqual([])
  })

  holds('are refused for what has none, and if the real file was changed', async (place) => {
    const { sandbox, directory } = place
    await sandbox.exec(`${edit('lines', 2, 28)}; printf '\\0' > binary`)
    const [first = ''] = await idsOf(place, 'lines')
    const { workspace } = sandbox
    const refused = async (hunks: HunkChoice[], options: object = {}) => [
      await rejectionOf(workspace.discard({ hunks })),
      await rejectionOf(workspace.commit({ hunks, ...options })),
    ]
    for (const error of await refused([{ path: 'binary', ids: [first] }]))
      expect(error).toMatchObject({
        ...{ code: 'FILE_NOT_FOUND', path: 'binary' },
        message: "'binary' cannot be taken by hunks: a binary file has no hunks",
      })
    for (const error of await refused([{ path: 'crlf', ids: [first] }]))
      expect(error).toMatchObject({ code: 'FILE_NOT_FOUND', message: "'crlf' names no change" })
    for (const error of await refused([{ path: '/etc/passwd', ids: [first] }]))
      expect(error).toMatchObject({ code: 'INVALID_PATH' })
    const hunks = [{ path: 'lines', ids: [first] }]
    expect((await rejectionOf(workspace.commit({ hunks, branch: 'a', message: 'b' }))).message).toBe(
      'hunks are not for a branch: leave one of them out',
    )
    writeFileSync(path.join(directory, 'lines'), LINES.join('').replace('line 15', 'theirs'))
    expect(await rejectionOf(workspace.commit({ hunks }))).toMatchObject({ code: 'WORKSPACE_CONFLICT' })
    await workspace.commit({ hunks, force: true })
    expect(readFileSync(path.join(directory, 'lines'), 'utf8')).toBe(
      LINES.join('').replace('line 15', 'theirs').replace('line 2\n', 'changed 2\n'),
    )
  })
})
