/** Starts the container of a project, or finds it running. Several programs may do so at once. */
import { refuseAborted } from '../base/abort.js'
import { timers } from '../base/builtin.js'
import { SandboxError } from '../base/errors.js'
import { type Answer, call, reasonOf } from './call.js'
import type { Creation } from './container.js'
import { CALL_MS, describe, failed, removeContainer } from './containers.js'
import { DIALECTS, ownContainer } from './dialect.js'
import { type Engine, processorOf } from './find.js'
import { shareRemedy } from './proof.js'

const PULL_MS = 60 * 60_000
/** Milliseconds in which a container is created: Podman may copy the image then, for the ids of this user. */
const CREATE_MS = 10 * 60_000
/** Others create, start, stop and remove the container at the same time. A removal of large volumes takes seconds. */
const MOST_ATTEMPTS = 100
const PAUSE_MS = 100

export interface StartPlan {
  engine: Engine
  image: string
  creation: Creation
  canPull: boolean
  /** Whether a container that is there is replaced. */
  isFresh: boolean
  onProgress: (step: string) => void
  signal: AbortSignal | undefined
}

/**
 * Resolves when the container runs, with its id and whether it is new. Rejects with CONTAINER_FAILED, IMAGE_UNAVAILABLE, RUNTIME_UNSUPPORTED or
 * AbortError.
 */
export async function startContainer(plan: StartPlan): Promise<{ id: string; isNew: boolean }> {
  const { engine, image, creation, onProgress } = plan
  const { name } = creation
  let { isFresh } = plan
  let failure: Answer | undefined
  for (let attempt = 1; attempt <= MOST_ATTEMPTS; attempt++) {
    if (attempt > 1) await timers.setTimeout(PAUSE_MS)
    let found = await look(plan)
    if (found && isFresh) {
      // Without the image, the old one is better than none.
      await needImage(plan)
      onProgress(`removing the container ${name}`)
      await removeContainer(engine, found, true)
      found = undefined
    }
    isFresh = false
    if (found?.isRunning) return { id: found.id, isNew: false }
    if (found === undefined) await needImage(plan)
    if (attempt === 1) onProgress(`starting a container of ${image}`)
    const started = found
      ? await run(plan, ['start', name])
      : await run(plan, ['run', '--detach', '--name', name, ...creation.args], CREATE_MS)
    if (started.isOk)
      return { id: found?.id ?? (started.stdout.split('\n').at(-1) || name), isNew: found === undefined }
    failure = started
    // Another client was faster, or the container ended in between.
    if (isRace(started) || (found && DIALECTS[engine.name].isMissing(started.stderr))) continue
    // An engine keeps a container that it could not start.
    if (found === undefined) await removeContainer(engine, { id: name, name }, false).catch(() => {})
    if (isElsewhere(started))
      throw new SandboxError(
        'MOUNT_MISSING',
        `${engine.name} has none of nacre's files in the container ${name} (${reasonOf(started)}): ${shareRemedy(engine)}`,
      )
    break
  }
  const remove = [engine.name, ...DIALECTS[engine.name].remove, '--force', name].join(' ')
  throw failed(
    engine,
    `start the container ${name}`,
    failure as Answer,
    `; if it stays so, remove it: ${remove}`,
  )
}

/** The container of this name. Rejects with CONTAINER_FAILED also if it is not one of nacre. */
async function look(plan: StartPlan) {
  const { engine, creation, signal } = plan
  const found = await describe(engine, creation.name, signal)
  refuseAborted(signal, 'opening the sandbox')
  if (found === undefined) return undefined
  if (!('state' in found)) throw failed(engine, `look for the container ${creation.name}`, found)
  const own = ownContainer(found)
  if (own !== undefined) return own
  const message = `the container ${creation.name} of ${engine.name} was not made by nacre: remove it, or rename it`
  throw new SandboxError('CONTAINER_FAILED', message)
}

function isRace({ stderr }: Answer): boolean {
  return /already in use|already exists|no such container|is not running|improper state|state improper|marked for removal|being removed|removal .*in progress/i.test(
    stderr,
  )
}

/** Whether the engine does not find what it must mount: the files of nacre. */
function isElsewhere({ stderr }: Answer): boolean {
  return /nacre-supervisor.*(no such file|not found|not exist)|(statfs|bind source path).*(no such file|not exist)/i.test(
    stderr,
  )
}

async function run({ engine, signal }: StartPlan, args: string[], timeout = CALL_MS): Promise<Answer> {
  const answer = await call(engine.file, args, { env: engine.env, timeout, signal })
  refuseAborted(signal, 'opening the sandbox')
  return answer
}

/** Pulls the image if it is missing. */
async function needImage(plan: StartPlan): Promise<void> {
  const { engine, image, canPull, onProgress } = plan
  const { inspectImage, readProcessors, pull } = DIALECTS[engine.name]
  const look = () => run(plan, [...inspectImage, image])
  let found = await look()
  if (!found.isOk) {
    const byHand = `${engine.name} ${engine.name === 'container' ? 'image pull' : 'pull'} ${image}`
    if (!canPull)
      throw new SandboxError(
        'IMAGE_UNAVAILABLE',
        `the image ${image} is missing, and pull is 'never': run ${byHand}`,
      )
    onProgress(`pulling ${image}`)
    const pulled = await run(plan, [...pull, engine.name === 'podman' ? fullName(image) : image], PULL_MS)
    if (!pulled.isOk) {
      const message = `the image ${image} cannot be pulled: ${reasonOf(pulled)}; check its name, or run ${byHand}`
      throw new SandboxError('IMAGE_UNAVAILABLE', message)
    }
    found = await look()
  }
  const processors = found.isOk ? processorsOf(found, readProcessors) : []
  if (processors.length === 0 || processors.includes(engine.arch)) return
  const message = `the image ${image} is for ${processors.join(', ')}, and ${engine.name} runs on ${engine.arch}: choose another image`
  throw new SandboxError('RUNTIME_UNSUPPORTED', message)
}

function processorsOf({ stdout }: Answer, read: (answer: string) => string[]): string[] {
  try {
    return read(stdout).map(processorOf)
  } catch {
    // Then the start shows it.
    return []
  }
}

/** Podman may be set up without a registry for short names, as Docker has one. */
function fullName(image: string): string {
  const [first = '', ...rest] = image.split('/')
  if (rest.length === 0) return `docker.io/library/${image}`
  return /[.:]|^localhost$/.test(first) ? image : `docker.io/${image}`
}
