/** Opens a container for a project, and starts a server in it. */
import { errorOf, isEnvelope } from '../backends/http/failure.js'
import { fs, os, path } from '../base/builtin.js'
import { invalidOption, isCode, type OptionError, SandboxError } from '../base/errors.js'
import { absolute } from '../base/working-directory.js'
import type { EngineOptions, openSandboxOptions } from '../calls/engine.js'
import type { Isolation, SandboxErrorCode } from '../calls/index.js'
import { encodeEnv } from '../schema/env.js'
import type { CompleteValues } from '../schema/kind.js'
import { awaitServer } from './connect.js'
import { creation } from './container.js'
import { isRunning, listContainers, removeContainer } from './containers.js'
import { MOUNT_MISSING, NO_ADDON, NO_BASH, NO_RUNTIME, REFUSED, SUPERVISOR } from './enter.js'
import { type Engine, type EngineName, findEngine, installedEngines } from './find.js'
import { gitSettings } from './git.js'
import { type Place, readPlaces, refuseRuntime } from './mounts.js'
import { Program } from './program.js'
import { isBelow, type Project, projectOf, realPath } from './project.js'
import { type Proofs, proofs, shareRemedy } from './proof.js'
import { fetchBun, prepareRuntime, sweepRuntimes } from './runtime.js'
import { SearchPath } from './search-path.js'
import { runSetup } from './setup.js'
import { startContainer } from './start.js'

/** The variable with the options of the sandbox. Its value is on no command line, which all users can see. */
const SETTINGS = 'NACRE_INSIDE'
/** Bytes of its value: Linux takes at most 128 KiB for a variable. */
const MOST_SETTINGS = 130_000

/** A virtual machine is for vm.ts. */
export type ContainerValues = Omit<CompleteValues<typeof openSandboxOptions>, 'engine' | 'network'> & {
  engine: EngineName | 'auto'
  network: string | undefined
}

/** Milliseconds in which the server must answer. */
const ANSWER_MS = 30_000
/** The container may stop, and the directory may change, just then. */
const MOST_ATTEMPTS = 4

export interface Entered {
  engine: Engine
  /** The name of the container. */
  name: string
  image: string
  /** The server. */
  program: Program
}

/** Resolves when the server answers. `isolation` is as the caller gave it. */
export async function enterContainer(
  values: ContainerValues,
  isolation: EngineOptions['isolation'],
): Promise<Entered> {
  const { image, signal } = values
  const onProgress = (step: string) => {
    try {
      values.onProgress?.(step)
    } catch {
      // It has no other way out, and the start goes on.
    }
  }
  if (process.platform === 'win32')
    throw new SandboxError(
      'RUNTIME_UNSUPPORTED',
      'a container cannot have the paths of Windows: run this program in WSL 2',
    )
  const cwd = realPath(absolute(values.cwd ?? '.'), 'cwd', 'CWD_NOT_FOUND')
  const project = projectOf(cwd)
  const places = readPlaces(cwd, project, values.mounts)
  const wanted = (values.own ?? []).map((directory, at) =>
    makeOwn(cwd, project, places, directory, `own[${at}]`),
  )
  const own = [...new Set(wanted)]
  const search = new SearchPath(places.flatMap(({ source, readOnly }) => (readOnly ? [] : [source])))
  const [engine, git] = await Promise.all([
    findEngine(values.engine, signal, search),
    gitSettings(cwd, signal, search),
  ])
  const user = userOf(values.user, engine)
  const { network, cpus, memory, grace, setup, runtime: ociRuntime } = values
  if (engine.name === 'container' && ociRuntime !== undefined)
    throw invalidOption("runtime must be left out for Apple's container, which has one of its own")
  if (engine.name === 'container' && !Number.isInteger(cpus ?? 1))
    throw invalidOption(`cpus must be a whole number for Apple's container, not ${cpus}`)
  const runtime = prepareRuntime(engine.arch)
  refuseRuntime(runtime.directory, places)
  if (runtime.isNew) await sweepUnused(search)
  const isUnrestricted = user.uid === 0 && isolation === undefined
  const made = creation(engine, {
    ...{ project, image, runtime: runtime.directory, mounts: places.slice(project.length), own },
    ...{ network, cpus, memory, ociRuntime, grace, setup, user, isUnrestricted },
  })
  const { name } = made
  const settings = JSON.stringify({
    cwd,
    env: { ...git, ...(values.env && encodeEnv(values.env)) },
    isolation: isolation && guarding(isolation),
    ...(user.uid !== 0 && { user }),
  })
  if (Buffer.byteLength(settings) > MOST_SETTINGS) {
    const message = `env and isolation must have at most ${MOST_SETTINGS} bytes together in a container`
    throw invalidOption(message)
  }
  const canPull = values.pull === 'missing'
  let isFresh = values.fresh
  /** The container that this call has created. */
  let created: string | undefined
  for (let attempt = 1; ; attempt++) {
    const plan = { engine, image, creation: made, canPull, isFresh, onProgress, signal }
    const started = await startContainer(plan)
    const { id } = started
    if (started.isNew) created = id
    isFresh = false
    const same = proofs(places)
    const program = startServer(engine, name, { same, user, own, settings })
    try {
      await awaitServer(program, ANSWER_MS, signal).finally(same.remove)
    } catch (error) {
      const { exitCode, lastWords } = program
      if (attempt < MOST_ATTEMPTS) {
        if (exitCode === NO_RUNTIME) {
          onProgress('fetching Bun')
          const abi = lastLine(lastWords) === 'musl' ? 'musl' : 'gnu'
          await fetchBun(runtime.directory, engine.arch, abi, signal, search)
          continue
        }
        if (exitCode === MOUNT_MISSING || !(signal?.aborted || (await isRunning(engine, name)))) continue
      }
      // A server that has ended by itself does so for every client, unless it has refused the options of this one. Otherwise
      // others may use the container.
      if (id === created && exitCode !== REFUSED)
        await removeContainer(engine, { id, name }, exitCode !== null).catch(() => {})
      throw explain(error, program, { engine, name, image, cwd })
    }
    if (setup === undefined) return { engine, name, image, program }
    if (started.isNew) onProgress('setting up the container')
    try {
      const end = await runSetup(engine, name, { command: setup, cwd: project[0], signal })
      if (end.kind === 'done') return { engine, name, image, program }
      const isUseless = end.kind !== 'lost'
      if (isUseless) await removeContainer(engine, { id, name }, true)
      if (end.kind === 'failed' || attempt === MOST_ATTEMPTS) {
        const fate = isUseless ? 'failed, and it was removed' : 'cannot run'
        throw new SandboxError(
          'CONTAINER_FAILED',
          `the set-up of the container ${name} ${fate}: ${end.output}`,
        )
      }
    } catch (error) {
      await program.close(0)
      // Its set-up was interrupted, and can never be complete.
      if (signal?.aborted && id === created) await removeContainer(engine, { id, name }, true).catch(() => {})
      throw error
    }
    await program.close(0)
  }
}

interface EntryPlan {
  same: Proofs
  user: Ids
  own: string[]
  /** As JSON. */
  settings: string
}

/** The ids of a user. */
interface Ids {
  uid: number
  gid: number
}

/** Starts the server in a running container. */
function startServer(engine: Engine, name: string, { same, user, own, settings }: EntryPlan): Program {
  const words = ['exec', '--interactive', '--user', '0:0', '--env', SETTINGS, name]
  const enter = [SUPERVISOR, '--enter', String(user.uid), String(user.gid), accountName(), ...same.words]
  try {
    return new Program({
      argv: [engine.file, ...words, ...enter, ...own.flatMap((directory) => ['own', directory])],
      name: `${engine.name} exec ${name}`,
      cwd: undefined,
      env: { names: ['PATH', SETTINGS], values: [engine.env.PATH ?? null, settings] },
      onStderr: undefined,
      logger: undefined,
    })
  } catch (error) {
    same.remove()
    throw error
  }
}

/** Starts a server in a container that runs, for a look at it. Rejects with CONNECTION_FAILED. */
export async function enterRunning(engine: Engine, name: string, project: string): Promise<Program> {
  const user = userOf('me', engine)
  const settings = JSON.stringify({ cwd: project, env: {}, ...(user.uid !== 0 && { user }) })
  const same = proofs([{ source: project, readOnly: false }])
  const program = startServer(engine, name, { same, user, own: [], settings })
  await awaitServer(program, ANSWER_MS, undefined).finally(same.remove)
  return program
}

/** Removes old copies of nacre's files, unless a container may run with one. */
async function sweepUnused(search: SearchPath): Promise<void> {
  const used = new Set<string>()
  try {
    for (const { found } of installedEngines('auto', undefined, search)) {
      const engine = await found
      // It cannot say what its containers use.
      if (typeof engine === 'string') return
      for (const { isRunning, runtime } of await listContainers(engine)) if (isRunning) used.add(runtime)
    }
    sweepRuntimes(used)
  } catch {
    // The next new copy tries it again.
  }
}

/**
 * A directory that the container has for itself. Otherwise the engine would make it, as root. No link is followed: the files of
 * a project may be those of others.
 */
function makeOwn(cwd: string, [top]: Project, places: Place[], given: string, name: string): string {
  const wanted = path.resolve(cwd, given)
  const refuse = (why: string) => invalidOption(`${name} must be ${why}, not ${wanted}`)
  if (!isBelow(wanted, top) || isBelow(cwd, wanted)) throw refuse(`a directory below the project ${top}`)
  if (places.some(({ source }) => source === wanted)) throw refuse('no mount')
  let at = top
  for (const part of path.relative(top, wanted).split(path.sep)) {
    at = path.join(at, part)
    if (!hasDirectory(at, refuse)) throw refuse(`a directory, and ${at} is none`)
  }
  return wanted
}

/** Makes a directory that is missing. Whether there is one. */
function hasDirectory(file: string, refuse: (why: string) => OptionError): boolean {
  try {
    const entry = fs.lstatSync(file, { throwIfNoEntry: false })
    if (entry === undefined) fs.mkdirSync(file)
    return entry?.isDirectory() ?? true
  } catch (error) {
    throw refuse(`a directory that can be made (${(error as NodeJS.ErrnoException).code})`)
  }
}

/** The ids of commands. In a rootless container of Docker, root is this user, and all others are not. */
function userOf(wanted: 'me' | 'root', { name, isRootless }: Engine): Ids {
  const isRoot = wanted === 'root' || (name === 'docker' && isRootless)
  return isRoot ? { uid: 0, gid: 0 } : { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }
}

/** A name for this user in the container, where it may be unknown. */
function accountName(): string {
  try {
    const name = os
      .userInfo()
      .username.toLowerCase()
      .replace(/[^a-z0-9_-]/g, '')
    return /^[a-z]/.test(name) ? name : 'user'
  } catch {
    return 'user'
  }
}

function lastLine(text: string): string {
  return text.split('\n').at(-1) ?? ''
}

/** The error that the server has printed, if that is one. */
export function refusalOf(line: string): Error | undefined {
  try {
    const envelope = JSON.parse(line)
    return isEnvelope(envelope) ? errorOf(envelope) : undefined
  } catch {
    return undefined
  }
}

function explain(
  error: unknown,
  { exitCode, lastWords, name: program }: Program,
  { engine, name, image, cwd }: Omit<Entered, 'program'> & { cwd: string },
): unknown {
  if (!isCode(error, 'CONNECTION_FAILED')) return error
  const last = lastLine(lastWords)
  if (exitCode === REFUSED) return refusalOf(last) ?? error
  const lost = `the container ${name} has lost the files of nacre: replace it with fresh, or remove it with nacre down`
  const causes: Record<number, [code: SandboxErrorCode, message: string]> = {
    // What engines say when they cannot run the program: then it was deleted on this machine.
    126: ['CONTAINER_FAILED', lost],
    127: ['CONTAINER_FAILED', lost],
    [NO_BASH]: [
      'IMAGE_WITHOUT_BASH',
      `the image ${image} has no bash: install bash in it, or choose an image that has it`,
    ],
    [MOUNT_MISSING]: [
      'MOUNT_MISSING',
      `the container has other files in ${last || cwd} than this machine: ${shareRemedy(engine)}`,
    ],
    [NO_ADDON]: [
      'RUNTIME_UNSUPPORTED',
      `the image ${image} has the C library ${last}, for which nacre's native part is not installed: ` +
        `install @nacre/linux-${engine.arch}-${last} (npm install --force), or choose another image`,
    ],
    [NO_RUNTIME]: [
      'RUNTIME_UNSUPPORTED',
      `Bun does not run in the image ${image}: choose one with Node.js, like node:22`,
    ],
  }
  const other = `the server in the container does not start: ${program}: ${error.message}`
  const [code, message] = causes[exitCode ?? 0] ?? (['CONTAINER_FAILED', other] as const)
  return new SandboxError(code, message, { cause: error })
}

/**
 * Rules that protect what this machine runs later in the project: those of a preset do, and here others, too. Otherwise they are
 * what they were.
 */
export function guarding(isolation: Isolation): Isolation {
  if (typeof isolation === 'string' || isolation.preset !== undefined) return isolation
  return { preset: 'workspace', network: 'host', processes: 'host', ...isolation }
}
