/** Starts the container of a project, or finds it running. Several programs may do so at once. */
import { refuseAborted } from '../base/abort.js'
import { timers } from '../base/builtin.js'
import { SandboxError } from '../base/errors.js'
import { type Answer, call, reasonOf } from './call.js'
import { type Engine, processorOf } from './find.js'

/** Milliseconds for all but a pull. */
const CALL_MS = 60_000
const PULL_MS = 60 * 60_000
/** Others create, start and stop the container at the same time. */
const MOST_ATTEMPTS = 5
const PAUSE_MS = 100

const INSPECT = ['inspect', '--type', 'container', '--format', '{{.State.Status}}']

export interface StartPlan {
  engine: Engine
  name: string
  image: string
  /** The arguments that create it. */
  args: string[]
  canPull: boolean
  onProgress: (step: string) => void
  signal: AbortSignal | undefined
}

/**
 * Resolves when the container runs, with whether it is new. Rejects with CONTAINER_FAILED, IMAGE_UNAVAILABLE, RUNTIME_UNSUPPORTED or
 * AbortError.
 */
export async function startContainer(plan: StartPlan): Promise<{ isNew: boolean }> {
  const { engine, name, onProgress } = plan
  let failure: Answer | undefined
  for (let attempt = 1; attempt <= MOST_ATTEMPTS; attempt++) {
    if (attempt > 1) await timers.setTimeout(PAUSE_MS)
    const found = await run(plan, [...INSPECT, name])
    if (found.isOk && found.stdout === 'running') return { isNew: false }
    if (!found.isOk && !isMissing(found)) throw failed(plan, 'cannot look for', found)
    if (!found.isOk) await needImage(plan)
    onProgress(`starting a container of ${plan.image}`)
    const started = await run(
      plan,
      found.isOk ? ['start', name] : ['run', '--detach', '--name', name, ...plan.args],
    )
    if (started.isOk) return { isNew: !found.isOk }
    failure = started
    // Another client was faster, or the container ended in between.
    if (isRace(started)) continue
    // An engine keeps a container that it could not start.
    if (!found.isOk) await removeContainer(engine, name, false)
    break
  }
  const remedy = `; if it stays so, remove it: ${engine.name} rm --force --volumes ${name}`
  throw failed(plan, 'cannot start', failure as Answer, remedy)
}

function isMissing({ stderr }: Answer): boolean {
  return /no such (container|object)/i.test(stderr)
}

function isRace({ stderr }: Answer): boolean {
  return /already in use|already exists|no such container|is not running|improper state|state improper|removal .*in progress/i.test(
    stderr,
  )
}

async function run({ engine, signal }: StartPlan, args: string[], timeout = CALL_MS): Promise<Answer> {
  const answer = await call(engine.file, args, { env: engine.env, timeout, signal })
  refuseAborted(signal, 'opening the sandbox')
  return answer
}

function failed({ engine, name }: StartPlan, what: string, answer: Answer, remedy = ''): SandboxError {
  const message = `${engine.name} ${what} the container ${name}: ${reasonOf(answer)}${remedy}`
  return new SandboxError('CONTAINER_FAILED', message)
}

/** Pulls the image if it is missing. */
async function needImage(plan: StartPlan): Promise<void> {
  const { engine, image, canPull, onProgress } = plan
  const look = () => run(plan, ['image', 'inspect', '--format', '{{.Architecture}}', image])
  let found = await look()
  if (!found.isOk) {
    const byHand = `${engine.name} pull ${image}`
    if (!canPull)
      throw new SandboxError(
        'IMAGE_UNAVAILABLE',
        `the image ${image} is missing, and pull is 'never': run ${byHand}`,
      )
    onProgress(`pulling ${image}`)
    const pulled = await run(
      plan,
      ['pull', '--quiet', engine.name === 'podman' ? fullName(image) : image],
      PULL_MS,
    )
    if (!pulled.isOk) {
      const message = `the image ${image} cannot be pulled: ${reasonOf(pulled)}; check its name, or run ${byHand}`
      throw new SandboxError('IMAGE_UNAVAILABLE', message)
    }
    found = await look()
  }
  const arch = processorOf(found.stdout)
  if (found.isOk && arch !== engine.arch) {
    const message = `the image ${image} is for ${arch}, and ${engine.name} runs on ${engine.arch}: choose another image`
    throw new SandboxError('RUNTIME_UNSUPPORTED', message)
  }
}

/** Podman may be set up without a registry for short names, as Docker has one. */
function fullName(image: string): string {
  const [first = '', ...rest] = image.split('/')
  if (rest.length === 0) return `docker.io/library/${image}`
  return /[.:]|^localhost$/.test(first) ? image : `docker.io/${image}`
}

/** Stops the container. Rejects with CONTAINER_FAILED. */
export async function stopContainer(engine: Engine, name: string): Promise<void> {
  const answer = await call(engine.file, ['stop', name], { env: engine.env, timeout: CALL_MS })
  if (answer.isOk || isMissing(answer)) return
  throw new SandboxError(
    'CONTAINER_FAILED',
    `${engine.name} cannot stop the container ${name}: ${reasonOf(answer)}`,
  )
}

/** Whether it runs, as far as the engine says. */
export async function isRunning(engine: Engine, name: string): Promise<boolean> {
  const { isOk, stdout } = await call(engine.file, [...INSPECT, name], { env: engine.env, timeout: CALL_MS })
  return isOk && stdout === 'running'
}

/**
 * Removes a container with its volumes: a running one only with `isUseless`, when it can serve no client. What fails shows at the
 * next start.
 */
export async function removeContainer(engine: Engine, name: string, isUseless: boolean): Promise<void> {
  const force = isUseless ? ['--force'] : []
  await call(engine.file, ['rm', ...force, '--volumes', name], { env: engine.env, timeout: CALL_MS })
}
