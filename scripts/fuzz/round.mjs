/** One round: a sandbox, some sessions, a list of operations, and the invariants after it. */
import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { environment, plainBash } from './bash.mjs'
import { within } from './call.mjs'
import { Deviation, Model } from './model.mjs'
import { perform } from './perform.mjs'
import { belongings, leftovers, takeInventory } from './world.mjs'

/** The ways in which the engine tracks processes. */
export const MODES = { default: {}, subreaper: { NACRE_CONTAINMENT: 'subreaper' } }

let rounds = 0

/**
 * Loads the addon and starts the engine's thread, which both remain; so does the event loop that Bun creates for
 * `spawnSync`.
 */
export async function warmUp() {
  plainBash(':')
  const directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-fuzz-warm-'))
  const sandbox = new Sandbox({ stateDir: directory })
  await sandbox.exec(':')
  await sandbox.destroy()
  rmSync(directory, { recursive: true, force: true })
}

/** Whether copy-on-write workspaces work on this machine. */
export async function hasWorkspaces() {
  return (await new Sandbox().capabilities()).workspace.copyOnWrite
}

/** Runs a round. Returns the deviation, with the index of its operation, or undefined. */
export async function runRound({ mode, sessions, operations }) {
  const tag = `nacre-fuzz-${process.pid}-${++rounds}`
  const base = realpathSync(mkdtempSync(path.join(os.tmpdir(), `${tag}-`)))
  const root = path.join(base, 'work')
  const stateDir = path.join(base, 'state')
  mkdirSync(path.join(root, 'd1/d 2'), { recursive: true })
  mkdirSync(path.join(root, 'd3'))
  const before = takeInventory()
  const env = { ...environment, NACRE_FUZZ: tag }
  const sandbox = inMode(MODES[mode], () => new Sandbox({ cwd: root, stateDir, extendEnv: false, env }))
  const place = { sandbox, root, env }
  const subjects = Array.from({ length: sessions }, (_, number) => createSubject(place, number))
  let deviation
  try {
    await Promise.all(subjects.map((subject) => subject.open()))
    const ends = await Promise.all(subjects.map((subject, number) => follow(subject, number, operations)))
    deviation = ends.find((one) => one !== undefined)
    const last = await within(sandbox.exec('echo ok'), 'echo ok').catch((error) => error)
    if (last.stdout !== 'ok\n')
      deviation ??= { message: `echo ok gives ${last.message ?? JSON.stringify(last)}` }
  } catch (error) {
    deviation ??= toDeviation(error)
  }
  const owned = belongings(tag, before)
  await within(sandbox.destroy(), 'destroy').catch((error) => {
    deviation ??= toDeviation(error)
  })
  const left = await leftovers(tag, owned, before, 3000)
  if (left.length > 0) deviation ??= { message: `left behind: ${left.join('; ')}` }
  const files = readFiles(stateDir)
  if (files.length > 0) deviation ??= { message: `files are left: ${files.join(', ')}` }
  rmSync(base, { recursive: true, force: true })
  return deviation && { ...deviation, message: deviation.message.replaceAll(root, 'ROOT') }
}

function createSubject({ sandbox, root, env }, number) {
  return {
    sandbox,
    root,
    env,
    model: new Model(root),
    session: undefined,
    /** The pid of the shell, once a command has run. */
    shell: undefined,
    /** Whether something was killed, so that the next command may report a restarted shell. */
    disturbed: false,
    async open() {
      this.shell = undefined
      this.session = await sandbox.createSession({ id: `s${number}` })
      this.model.reset()
    },
  }
}

/** Carries out the operations of one session, until the first deviation. */
async function follow(subject, number, operations) {
  const plan = operations.filter(({ session }) => session === number)
  for (const operation of [...plan, { kind: 'probe', session: number }]) {
    try {
      await perform(subject, operation)
    } catch (error) {
      return { ...toDeviation(error), at: operations.indexOf(operation), operation }
    }
  }
  return undefined
}

function toDeviation(error) {
  return { message: error instanceof Deviation ? error.message : `${error.stack}` }
}

/** Creates a sandbox with these variables: it reads its mode from the environment. */
export function inMode(env, action) {
  const names = Object.keys(env)
  const before = names.map((name) => process.env[name])
  Object.assign(process.env, env)
  try {
    return action()
  } finally {
    names.forEach((name, at) => {
      if (before[at] === undefined) delete process.env[name]
      else process.env[name] = before[at]
    })
  }
}

/** The paths below a directory; none if it does not exist. */
export function readFiles(directory) {
  try {
    return readdirSync(directory, { recursive: true, encoding: 'utf8' })
  } catch {
    return []
  }
}
