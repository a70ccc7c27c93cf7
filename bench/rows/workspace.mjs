/**
 * The cost of a copy-on-write workspace: commands and files inside it against outside, its start, its comparison, its
 * checkpoints and its forks.
 *
 * Compared with what programs use instead: a copy, `git worktree`, fuse-overlayfs if it is installed, and a hidden git
 * repository, which looks at the whole directory in every step.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { roundRobin, summarizeEach } from '../stats.mjs'

export const title = 'Copy-on-write workspace'
export const variants = ['inside', 'start', 'step', 'back', 'fork']

const IDENTITY = ['AUTHOR', 'COMMITTER'].flatMap((who) => [
  [`GIT_${who}_NAME`, 'bench'],
  [`GIT_${who}_EMAIL`, 'bench@localhost'],
])
const SMALL_FILES = 1000
const CHANGES = 1000

export async function measure(variant, { quick }) {
  const base = mkdtempSync('/var/tmp/nacre-bench-')
  try {
    return await { inside, start, step, back, fork }[variant](base, quick)
  } finally {
    rmSync(base, { recursive: true })
  }
}

/** Commands and files, without a workspace and in one. */
async function inside(base, quick) {
  const directory = furnish(path.join(base, 'real'), 10_000)
  const outside = open(base, directory)
  await outside.exec('git init -q && git add -A && git commit -q -m base', { check: true })
  const places = { outside, inside: open(base, directory, 'copy-on-write') }
  const each = (act) => mapValues(places, (sandbox) => () => act(sandbox))
  const rounds = quick ? 2 : 10
  const builtins = await roundRobin(
    each((sandbox) => sandbox.exec('true')),
    { rounds, burst: 50, warmups: 1 },
  )
  const status = each((sandbox) => sandbox.exec('git status --porcelain', { check: true }))
  const statuses = await roundRobin(status, { rounds, warmups: 1 })
  const [reads, writes] = [mapValues(places, () => []), mapValues(places, () => [])]
  for (let round = 0; round < rounds; round++) {
    for (const [name, sandbox] of Object.entries(places)) {
      reads[name].push(await timeOfEachFile(sandbox, 'fs.statSync(file); fs.closeSync(fs.openSync(file))'))
    }
    for (const [name, workspace] of [
      ['outside', 'direct'],
      ['inside', 'copy-on-write'],
    ]) {
      // A new one, so that the write is the first one again.
      const sandbox = open(base, directory, /** @type {'direct' | 'copy-on-write'} */ (workspace))
      writes[name].push(await timeOfEachFile(sandbox, "fs.appendFileSync(file, 'x')"))
      await sandbox.destroy()
    }
  }
  await Promise.all(Object.values(places).map((sandbox) => sandbox.destroy()))
  return {
    '`true`': summarizeEach(builtins),
    '`git status` of 10,000 files': summarizeEach(statuses),
    '1,000 cached files: stat, open, close': summarizeEach(reads),
    '1,000 small files: the first write': summarizeEach(writes),
  }
}

/** A private view of 10,000 files, to the end of its first command. */
async function start(base, quick) {
  const directory = furnish(path.join(base, 'real'), 10_000)
  const first = open(base, directory)
  await first.exec('git init -q && git add -A && git commit -q -m base', { check: true })
  await first.destroy()
  let count = 0
  const view = () => path.join(base, `view-${count++}`)
  const once = (workspace) => async () => {
    const sandbox = open(base, directory, workspace)
    await sandbox.exec('true', { check: true })
    await sandbox.destroy()
  }
  const actions = {
    'no workspace': once('direct'),
    nacre: once('copy-on-write'),
    'cp -a': () => run('cp', ['-a', directory, view()]),
    // Files that git ignores would have to be copied, too.
    'git worktree': () => run('git', ['worktree', 'add', '-q', '--detach', view()], directory),
    ...(isInstalled('fuse-overlayfs') && { 'fuse-overlayfs': () => mountByFuse(directory, view()) }),
  }
  return {
    'start over 10,000 files': summarizeEach(
      await roundRobin(actions, { rounds: quick ? 1 : 8, warmups: 1 }),
    ),
  }
}

/** 1,000 changes, ten of them since the last step, over few and over many files: so milliseconds are microseconds each. */
async function step(base, quick) {
  const results = {}
  for (const files of [10, quick ? 10_000 : 100_000]) {
    const [seen, recorded] = ['seen', 'recorded'].map((name) =>
      furnish(path.join(base, `${name}-${files}`), files),
    )
    const repository = { GIT_DIR: path.join(base, `git-${files}`), GIT_WORK_TREE: recorded }
    const nacre = open(base, seen, 'copy-on-write')
    const git = open(base, recorded, 'direct', repository)
    const record = 'git add -A && now=$(git commit-tree -m step "$(git write-tree)")'
    await git.exec(`git init -q && ${record} && base=$now`, { check: true })
    let round = 0
    const edit = (count) => `for ((i = 0; i < ${count}; i++)); do echo ${round++} > changed-$i; done`
    for (const sandbox of [nacre, git]) await sandbox.exec(edit(CHANGES), { check: true })
    const both = (inNacre, inGit) => ({
      nacre: async () => {
        await nacre.exec(edit(10), { check: true })
        await inNacre()
      },
      'hidden git': () => git.exec(`${edit(10)}; ${record} && ${inGit} "$base" "$now"`, { check: true }),
    })
    const plan = { rounds: quick ? 2 : 10, warmups: 1 }
    const lists = both(() => nacre.workspace.changes(), 'git diff-tree -r --name-status')
    const patches = both(() => nacre.workspace.diff(), 'git diff --binary')
    const of = `of 1,000 changes, ${files.toLocaleString('en-US')} files`
    results[`list ${of}`] = summarizeEach(await roundRobin(lists, plan))
    results[`patch ${of}`] = summarizeEach(await roundRobin(patches, plan))
    await Promise.all([nacre.destroy(), git.destroy()])
  }
  return results
}

/** A step to which one can go back, and the way back from ten changed files, to the end of the next command. */
async function back(base, quick) {
  const results = {}
  const rounds = quick ? 2 : 10
  for (const changes of [10, 1000]) {
    const [seen, recorded] = ['seen', 'recorded'].map((name) =>
      furnish(path.join(base, `${name}-${changes}`), 10_000),
    )
    const repository = { GIT_DIR: path.join(base, `git-${changes}`), GIT_WORK_TREE: recorded }
    const nacre = open(base, seen, 'copy-on-write')
    const git = open(base, recorded, 'direct', repository)
    const record = 'git add -A && now=$(git commit-tree -m step "$(git write-tree)")'
    await git.exec(`git init -q && ${record}`, { check: true })
    let round = 0
    const edit = (count) => `for ((i = 0; i < ${count}; i++)); do echo ${round++} > changed-$i; done`
    let point
    const times = { step: { nacre: [], 'hidden git': [] }, back: { nacre: [], 'hidden git': [] } }
    for (let at = 0; at < rounds; at++) {
      for (const sandbox of [nacre, git]) await sandbox.exec(edit(changes), { check: true })
      times.step.nacre.push(
        await timeOf(async () => {
          point = await nacre.checkpoint()
          await nacre.exec('true')
        }),
      )
      times.step['hidden git'].push(await timeOf(() => git.exec(record, { check: true })))
      for (const sandbox of [nacre, git]) await sandbox.exec(`${edit(10)}; x=new`, { check: true })
      times.back.nacre.push(
        await timeOf(async () => {
          await nacre.rollback(point)
          await nacre.exec('true', { check: true })
        }),
      )
      // It restores the files, and neither the variables nor what git ignores.
      const restore = 'git read-tree --reset -u "$now" && git clean -fdq'
      times.back['hidden git'].push(await timeOf(() => git.exec(restore, { check: true })))
    }
    results[`a step after ${changes} changes, 10,000 files`] = summarizeEach(times.step)
    results[`back by 10 changes, ${changes} before, 10,000 files`] = summarizeEach(times.back)
    await Promise.all([nacre.destroy(), git.destroy()])
  }
  return results
}

/** Several independent copies of 10,000 files with 1,000 changes, to the end of the first command in each. */
async function fork(base, quick) {
  const directory = furnish(path.join(base, 'real'), 10_000)
  const parent = open(base, directory, 'copy-on-write')
  await parent.exec('for ((i = 0; i < 1000; i++)); do echo $i > changed-$i; done', { check: true })
  let count = 0
  const copies = async (wanted) => {
    for (let made = 0; made < wanted; made++) {
      const view = path.join(base, `view-${count++}`)
      run('cp', ['-a', directory, view])
      run('true', [], view)
    }
  }
  const results = {}
  for (const wanted of [1, 8, ...(quick ? [] : [100])]) {
    const actions = {
      nacre: async () => {
        const forks = await parent.fork(wanted)
        await Promise.all(forks.map((sandbox) => sandbox.exec('true', { check: true })))
        return forks
      },
      ...(wanted <= 8 && { 'cp -a': () => copies(wanted) }),
    }
    const times = mapValues(actions, () => [])
    for (let round = 0; round < (quick ? 2 : 5); round++) {
      for (const [name, act] of Object.entries(actions)) {
        let forks
        times[name].push(
          await timeOf(async () => {
            forks = await act()
          }),
        )
        await Promise.all((forks ?? []).map((sandbox) => sandbox.destroy()))
      }
    }
    results[`${wanted} forks of 10,000 files`] = summarizeEach(times)
  }
  await parent.destroy()
  return results
}

async function timeOf(act) {
  const begun = performance.now()
  await act()
  return performance.now() - begun
}

/** Creates files of 2 KB, 100 in each directory. */
function furnish(directory, count) {
  for (let number = 0; number < count; number++) {
    const parent = path.join(directory, `d-${Math.floor(number / 100)}`)
    if (number % 100 === 0) mkdirSync(parent, { recursive: true })
    writeFileSync(path.join(parent, `f-${number}`), `${number}\n`.repeat(2048).slice(0, 2048))
  }
  return directory
}

/** @param {import('nacre').SandboxOptions['workspace']} [workspace] */
function open(base, cwd, workspace = 'direct', env = {}) {
  const extendEnv = { ...Object.fromEntries(IDENTITY), ...env }
  return new Sandbox({ cwd, workspace, stateDir: path.join(base, 'state'), env: extendEnv })
}

/** Milliseconds of an action on 1,000 files, in a program of the sandbox. */
async function timeOfEachFile(sandbox, action) {
  const program = `const fs = require('fs')
    const files = Array.from({ length: ${SMALL_FILES} }, (_, number) => 'd-' + Math.floor(number / 100) + '/f-' + number)
    for (const file of files) fs.statSync(file)
    const begun = performance.now()
    for (const file of files) { ${action} }
    console.log(performance.now() - begun)`
  const { stdout } = await sandbox.exec([process.execPath, '-e', program], { check: true })
  return Number(stdout)
}

function mountByFuse(lower, view) {
  const [upper, work, merged] = ['upper', 'work', 'merged'].map((name) => path.join(view, name))
  for (const directory of [upper, work, merged]) mkdirSync(directory, { recursive: true })
  run('fuse-overlayfs', ['-o', `lowerdir=${lower},upperdir=${upper},workdir=${work}`, merged])
  run('true', [], merged)
  run('fusermount3', ['-u', merged])
}

function run(program, args, cwd) {
  execFileSync(program, args, { cwd, stdio: 'ignore' })
}

function isInstalled(program) {
  try {
    run(program, ['--version'])
    return true
  } catch {
    return false
  }
}

function mapValues(object, map) {
  return Object.fromEntries(Object.entries(object).map(([name, value]) => [name, map(value)]))
}
