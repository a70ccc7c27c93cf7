/**
 * A copy-on-write workspace with random changes, in its own sandbox: a pause would wait for the commands of other sessions.
 * What its calls report and do is compared with the real directory and with what programs see.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { Sandbox } from 'nacre'
import { must, within } from './call.mjs'
import { readTree } from './tree.mjs'

const DIRECTORIES = ['a', 'b', 'd e', 'a/b', 'b/a', 'd e/a']
const NAMES = [
  'a',
  'b',
  'c',
  'd e',
  'é',
  '-x',
  "q'uote",
  'tab\tname',
  'new\nline',
  '$var',
  'back\\slash',
  '.hidden',
]
const MODES = ['700', '755', '711', '2755', '1777']

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`

/** A line that may fail, and does no harm outside. */
function line(random) {
  const place = () => `./${random.chance(0.5) ? '' : `${random.pick(DIRECTORIES)}/`}${random.pick(NAMES)}`
  const [one, other] = [quoted(place()), quoted(place())]
  return random.pick([
    () => `echo ${random.below(5)} > ${one}`,
    () => `echo more >> ${one}`,
    () => `printf no-newline > ${one}`,
    () => `truncate -s ${random.below(9)} ${one}`,
    () => `seq ${random.below(900)} | tac > ${one}`,
    () => `printf '\\0%s' ${random.below(100)} > ${one}`,
    () => `touch ${one}`,
    () => `mkdir ${one}`,
    () => `mkdir -p ${one}/x/y`,
    () => `mkdir -p ${quoted(random.pick(DIRECTORIES))}`,
    () => `rm -rf ${one}`,
    () => `rm ${one}`,
    () => `rmdir ${one}`,
    () => `mv ${one} ${other}`,
    () => `mv -T ${one} ${other}`,
    () => `cp -a ${one} ${other}`,
    () => `ln ${one} ${other}`,
    () => `ln -s ${quoted(`to-${random.pick(NAMES)}`)} ${one}`,
    // Under a name of its own: what opens one waits.
    () => `mkfifo ${quoted(`${random.pick(DIRECTORIES)}/fifo`)}`,
    () => `chmod ${random.pick(MODES)} ${one}`,
    () => `[ -f ${one} ] && chmod ${random.pick(['600', '644'])} ${one}`,
    () => `rm -rf ${one} && mkdir ${one} && echo in > ${one}/${quoted(random.pick(NAMES))}`,
    () => `[ -d ${one} ] && rm -rf ${one} && echo now-a-file > ${one}`,
    () => `[ -f ${one} ] && rm ${one} && mkdir ${one} && echo x > ${one}/f`,
  ])()
}

const script = (random, least, most) => random.list(least, most, () => line(random))

/** Stands for a checkpoint between the lines of a script. No line is running, so it copies nothing. */
const CHECKPOINT = 'checkpoint'

const parts = (random) => random.list(3, 17, () => (random.chance(0.15) ? CHECKPOINT : line(random)))

/** What a step does once its changes are checked. `which` chooses one of them. */
const ENDS = {
  ...{ nothing: 2, commit: 2, commitOne: 2, discard: 1, discardOne: 2, conflict: 2, reopen: 2 },
  ...{ checkpoint: 4, rollback: 4, forget: 1, fork: 3, build: 1, service: 1 },
}

/** Creates the operation, as plain data. */
export const workspaceOperation = (random) => ({
  furnish: script(random, 0, 25),
  steps: random.list(1, 8, () => ({
    script: parts(random),
    patch: random.chance(0.5),
    end: random.weighted(ENDS),
    which: random.below(1000),
  })),
})

/** Carries it out. Throws a Deviation. */
export async function workspace({ root, env }, { furnish, steps }) {
  const place = mkdtempSync(path.join(path.dirname(root), 'workspace-'))
  const subject = new Subject(place, env)
  try {
    run(furnish, subject.directory)
    for (const step of steps) await subject.step(step)
    await subject.destroy()
    await subject.sandbox?.workspace.delete('fuzz')
    subject.sandbox = undefined
  } finally {
    await subject.destroy()
    rmSync(place, { recursive: true, force: true })
  }
}

const textOf = (lines) => [...lines.map((line) => `{ ${line}; } 2>/dev/null`), 'true'].join('\n')

function run(lines, directory) {
  execFileSync('bash', ['-c', textOf(lines)], { cwd: directory, stdio: 'ignore' })
}

class Subject {
  sandbox
  #place
  #env
  /** The entries that programs see. */
  #seen = {}
  #changes = []
  /** The checkpoints, each with what programs saw. */
  #points = []
  /** What the sandbox is a fork of, if that still exists. */
  #ancestors = []
  #isFork = false
  #builds = 0

  constructor(place, env) {
    this.#place = place
    this.#env = env
    mkdirSync(this.directory)
  }

  get directory() {
    return path.join(this.#place, 'real')
  }

  async step({ script, patch, end, which }) {
    this.sandbox ??= this.#open()
    const before = readTree(this.directory)
    await this.#run(script)
    this.#mustEqual(readTree(this.directory), before, 'a change is real before a commit')
    this.#changes = await this.#call('changes')
    const listed = this.#changes.map((change) => change.path)
    const differing = differences(before, this.#seen)
    must(
      JSON.stringify(listed.toSorted()) === JSON.stringify(differing.toSorted()),
      `changes() lists ${JSON.stringify(listed)} instead of ${JSON.stringify(differing)}`,
    )
    if (patch) await this.#checkPatch(before)
    if (this.#changes.length > 0) await this[end](this.#changes[which % this.#changes.length], which)
    const points = await within(this.sandbox.checkpoints(), 'checkpoints')
    const ids = this.#points.map(({ id }) => id)
    must(
      points.map(({ id }) => id).join() === ids.join(),
      `checkpoints ${JSON.stringify(points)} instead of ${ids}`,
    )
  }

  /** Runs the lines, and makes the checkpoints between them. */
  async #run(script) {
    let lines = []
    for (const line of [...script, undefined]) {
      if (line !== undefined && line !== CHECKPOINT) {
        lines.push(line)
        continue
      }
      await this.#exec(['bash', '-c', textOf(lines)])
      lines = []
      const point = line === CHECKPOINT && (await within(this.sandbox.checkpoint(), 'checkpoint'))
      await this.#look()
      if (point) this.#points.push({ id: point.id, seen: this.#seen })
    }
  }

  async destroy() {
    for (const ancestor of this.#ancestors.splice(0))
      await within(ancestor.destroy(), 'destroy of an ancestor')
    if (this.sandbox !== undefined) await within(this.sandbox.destroy(), 'destroy')
  }

  nothing() {}

  async commit() {
    await this.#commit({})
    this.#mustEqual(readTree(this.directory), this.#seen, 'a commit makes something else real')
    await this.#mustHaveNoChanges('a commit')
  }

  async commitOne(change) {
    await this.#commit({ paths: [change.pathBytes] })
    const seen = this.#seen
    await this.#look()
    this.#mustEqual(this.#seen, seen, `the commit of ${change.path} changes what programs see`)
    this.#mustBeSettled(change, 'commit')
  }

  async discard() {
    await this.#call('discard')
    await this.#look()
    this.#mustEqual(this.#seen, readTree(this.directory), 'a discard leaves a difference')
    await this.#mustHaveNoChanges('a discard')
  }

  async discardOne(change) {
    await this.#call('discard', { paths: [change.pathBytes] })
    await this.#look()
    this.#mustBeSettled(change, 'discard')
  }

  /** Another program changes a file that was changed here. */
  async conflict({ path: name, kind, type }) {
    if (kind !== 'file' || type !== 'modified') return
    const other = path.join(this.#place, 'other')
    writeFileSync(other, 'theirs')
    renameSync(other, path.join(this.directory, name))
    const before = readTree(this.directory)
    const refused = await this.sandbox.workspace.commit({ sync: false }).catch((error) => error)
    must(
      refused.code === 'WORKSPACE_CONFLICT' && refused.paths.includes(name),
      `a commit of ${name}, which others have changed: ${refused.code ?? JSON.stringify(refused)} ${refused.paths}`,
    )
    this.#mustEqual(readTree(this.directory), before, 'a commit with a conflict changes the real directory')
    await this.#commit({ force: true })
    this.#mustEqual(readTree(this.directory), this.#seen, 'a forced commit makes something else real')
  }

  /** The layers are closed, and opened by another sandbox. */
  async reopen() {
    if (this.#isFork) return
    await this.destroy()
    this.sandbox = this.#open()
    const seen = this.#seen
    await this.#look()
    this.#mustEqual(this.#seen, seen, 'the reopened workspace differs')
  }

  async checkpoint() {
    await this.#exec(['true'])
    const { id } = await within(this.sandbox.checkpoint(), 'checkpoint')
    this.#points.push({ id, seen: this.#seen })
    const seen = this.#seen
    await this.#look()
    this.#mustEqual(this.#seen, seen, 'a checkpoint changes what programs see')
  }

  async rollback(_change, which) {
    const point = this.#points[which % this.#points.length]
    if (point === undefined) return
    await within(this.sandbox.rollback(point.id), 'rollback')
    await this.#look()
    this.#mustEqual(this.#seen, point.seen, `after the rollback to ${point.id}, programs see something else`)
  }

  async forget(_change, which) {
    const [point] = this.#points.splice(which % Math.max(this.#points.length, 1), 1)
    if (point !== undefined) await within(this.sandbox.deleteCheckpoint(point.id), 'deleteCheckpoint')
  }

  /** What gets another content is built again. */
  async build(_change, which) {
    const make = (line) => this.#exec(['bash', '-c', `${line} && make -s`])
    const [old, next] = [++this.#builds, ++this.#builds]
    const rule = "printf 'built: source\\n\\tcp source built\\n' > Makefile"
    await make(`mkdir -p build && cd build && ${rule} && echo ${old} > source`)
    await this.#commit({ paths: ['build'] })
    await make(`cd build && echo ${next} > source`)
    // Not the product alone: as after `git checkout`, it is newer than its source then.
    const paths = [['build/source'], ['build']][which % 2]
    if (which % 4 < 2) await this.#call('discard', { paths })
    else await this.#commit({ paths })
    const { stdout } = await this.#exec(['bash', '-c', 'cd build && make -s && cat source built'])
    must(
      [`${old}\n${old}\n`, `${next}\n${next}\n`].includes(stdout),
      `make after ${paths} leaves ${JSON.stringify(stdout)}`,
    )
    await this.#look()
  }

  /** A rollback ends a service that waits for its next start, too. */
  async service() {
    const log = path.join(this.#place, 'starts')
    writeFileSync(log, '')
    const starts = () => readFileSync(log, 'utf8').length
    const { id } = await within(this.sandbox.checkpoint(), 'checkpoint')
    const options = { healthCheck: { log: 'up' }, restart: 'on-failure', restartDelay: 50 }
    const command = `printf x >> ${quoted(log)}; echo up; sleep 0.02; exit 1`
    await within(this.sandbox.startService(command, options), 'startService')
    while (starts() < 2) await sleep(5)
    await within(this.sandbox.rollback(id), 'rollback')
    const before = starts()
    await sleep(150)
    must(starts() === before, 'a service starts again after a rollback')
    await within(this.sandbox.deleteCheckpoint(id), 'deleteCheckpoint')
    await this.#look()
  }

  /** Goes on in a fork. Another fork changes everything, and the parent ends or stays. */
  async fork(_change, which) {
    const [parent, seen, changes] = [this.sandbox, this.#seen, JSON.stringify(this.#changes)]
    const [next, other] = await within(parent.fork(2), 'fork')
    this.#ancestors.push(parent, other)
    this.sandbox = other
    await this.#look()
    this.#mustEqual(this.#seen, seen, 'a fork differs')
    await this.#exec(['bash', '-c', 'chmod -R u+rwX .; rm -rf ./* ./.[!.]*; mkdir ruin; echo > ruin/x'])
    for (const sandbox of [parent, next]) {
      this.sandbox = sandbox
      await this.#look()
      this.#mustEqual(this.#seen, seen, 'a fork changes what others see')
      must(JSON.stringify(await this.#call('changes')) === changes, 'a fork has other changes')
    }
    this.#isFork = true
    if (which % 2 === 0) {
      for (const ancestor of this.#ancestors.splice(0))
        await within(ancestor.destroy(), 'destroy of an ancestor')
      await this.#look()
      this.#mustEqual(this.#seen, seen, 'the end of its parent changes what a fork sees')
    }
  }

  #open() {
    const stateDir = path.join(this.#place, 'state')
    const workspace = { mode: 'copy-on-write', id: 'fuzz' }
    return new Sandbox({ cwd: this.directory, stateDir, workspace, extendEnv: false, env: this.#env })
  }

  async #exec(command) {
    return await within(this.sandbox.exec(command, { check: true }), JSON.stringify(command).slice(0, 400))
  }

  /** Reads what programs see. */
  async #look() {
    const program = fileURLToPath(import.meta.resolve('./tree.mjs'))
    const { stdout } = await this.#exec([process.execPath, program, this.directory])
    this.#seen = JSON.parse(stdout)
  }

  async #call(name, options) {
    const call = this.sandbox.workspace[name](options).catch((error) => {
      must(
        false,
        `${name} ${JSON.stringify(options) ?? ''}: ${error.code} ${error.message} ${error.paths ?? ''}`,
      )
    })
    return await within(call, name)
  }

  async #commit(options) {
    const { applied, skipped } = await this.#call('commit', { sync: false, ...options })
    if (applied > 0) this.#points = []
    must(skipped.length === 0, `a commit skips ${JSON.stringify(skipped)}`)
  }

  async #checkPatch(before) {
    const patch = await this.#call('diff')
    if (this.#changes.some((change) => stopsGit(change, before))) return
    const copy = path.join(this.#place, 'copy')
    execFileSync('cp', ['-a', this.directory, copy])
    if (patch.length > 0) {
      const options = { cwd: copy, input: patch, stdio: ['pipe', 'ignore', 'pipe'] }
      // Not those of a repository above.
      const env = { ...process.env, GIT_DIR: '/proc/nonexistent' }
      try {
        execFileSync('git', ['apply', '--whitespace=nowarn', '-'], { ...options, env })
      } catch (error) {
        must(false, `git refuses the patch: ${error.stderr}${Buffer.from(patch)}`.slice(0, 1000))
      }
    }
    this.#mustEqual(inPatch(readTree(copy)), inPatch(this.#seen), 'the patch makes something else')
    rmSync(copy, { recursive: true })
  }

  #mustBeSettled({ path: name }, what) {
    const isWithin = (other) => other === name || other.startsWith(`${name}/`)
    const left = differences(readTree(this.directory), this.#seen).filter(isWithin)
    must(left.length === 0, `the ${what} of ${name} leaves ${JSON.stringify(left)}`)
  }

  async #mustHaveNoChanges(after) {
    const left = await this.#call('changes')
    must(left.length === 0, `changes after ${after}: ${JSON.stringify(left)}`)
  }

  #mustEqual(found, wanted, complaint) {
    const shown = differences(found, wanted).map((name) => [name, found[name], wanted[name]])
    must(shown.length === 0, `${complaint}: ${JSON.stringify(shown).slice(0, 2000)}`)
  }
}

/** The paths of the entries that differ. */
function differences(one, other) {
  const names = Object.keys({ ...one, ...other })
  return names.filter((name) => one[name] !== other[name])
}

/**
 * Whether git cannot put a change in its place: what is there has no form in a patch, so git leaves it. That is a FIFO, or a
 * directory with a FIFO or an empty directory below it.
 */
function stopsGit({ path: name, type, before }, tree) {
  if (type !== 'replaced') return false
  if (before.kind !== 'directory') return before.kind === 'fifo'
  const below = (place) => Object.keys(tree).filter((other) => other.startsWith(`${place}/`))
  const isForgotten = (place) =>
    tree[place].startsWith('other') || (tree[place].startsWith('directory') && below(place).length === 0)
  return below(name).some(isForgotten)
}

/** What a patch of git has a form for: files with their executable bit, and links. Not directories, FIFOs and other modes. */
function inPatch(tree) {
  const entries = Object.entries(tree).filter(([, text]) => /^(file|link) /.test(text))
  const plain = (text) =>
    text.replace(/^file (\d+)/, (_, mode) => (Number.parseInt(mode, 8) & 0o100 ? 'program' : 'file'))
  return Object.fromEntries(entries.map(([name, text]) => [name, plain(text)]))
}
