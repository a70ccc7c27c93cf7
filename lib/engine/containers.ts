/** The containers of nacre that an engine has. */
import { SandboxError } from '../base/errors.js'
import { type Answer, call, reasonOf } from './call.js'
import { ownVolumes } from './container.js'
import { type Container, type Described, DIALECTS, ownContainer } from './dialect.js'
import type { Engine } from './find.js'

/** Milliseconds for all but a pull. */
export const CALL_MS = 60_000

const ask = ({ file, env }: Engine, args: string[], signal?: AbortSignal) =>
  call(file, args, { env, timeout: CALL_MS, signal })

/** What an engine says about a container, undefined if there is none, or the answer that cannot be used. */
export async function describe(
  engine: Engine,
  name: string,
  signal?: AbortSignal,
): Promise<Described | undefined | Answer> {
  const { inspect, readContainers, isMissing } = DIALECTS[engine.name]
  const answer = await ask(engine, [...inspect, name], signal)
  if (!answer.isOk) return isMissing(answer.stderr) ? undefined : answer
  try {
    return readContainers(answer.stdout).find((found) => found.name === name)
  } catch {
    return { ...answer, isOk: false, stderr: 'its answer is not that of the engine' }
  }
}

/** All containers that nacre has made. Rejects with CONTAINER_FAILED. */
export async function listContainers(engine: Engine): Promise<Container[]> {
  const { list, inspect, readContainers, isMissing } = DIALECTS[engine.name]
  const fail = (answer: Answer) => failed(engine, 'list its containers', answer)
  const listed = await ask(engine, list)
  if (!listed.isOk) throw fail(listed)
  const ids = listed.stdout.split('\n').filter((id) => id !== '')
  if (ids.length === 0) return []
  const described = await ask(engine, [...inspect, ...ids])
  // Others may remove one just then. The answer has the rest.
  if (!described.isOk && !isMissing(described.stderr)) throw fail(described)
  try {
    return readContainers(described.stdout).flatMap((found) => ownContainer(found) ?? [])
  } catch {
    throw fail({ ...described, stderr: 'its answer is not that of the engine' })
  }
}

/** The error of an engine that cannot do `what`. */
export function failed({ name }: Engine, what: string, answer: Answer, remedy = ''): SandboxError {
  return new SandboxError('CONTAINER_FAILED', `${name} cannot ${what}: ${reasonOf(answer)}${remedy}`)
}

/** Whether it runs, as far as the engine says. */
export async function isRunning(engine: Engine, name: string): Promise<boolean> {
  const found = await describe(engine, name)
  return found !== undefined && 'state' in found && found.state === 'running'
}

/** Stops the container. Rejects with CONTAINER_FAILED. */
export async function stopContainer(
  engine: Engine,
  { id, name }: Pick<Container, 'id' | 'name'>,
): Promise<void> {
  const answer = await ask(engine, ['stop', id])
  if (answer.isOk || DIALECTS[engine.name].isMissing(answer.stderr)) return
  throw failed(engine, `stop the container ${name}`, answer)
}

/** Removes a container with its volumes: a running one only with `force`. Rejects with CONTAINER_FAILED. */
export async function removeContainer(
  engine: Engine,
  { id, name }: Pick<Container, 'id' | 'name'>,
  force: boolean,
): Promise<void> {
  const { remove, isMissing } = DIALECTS[engine.name]
  const answer = await ask(engine, [...remove, ...(force ? ['--force'] : []), id])
  if (!answer.isOk && !isMissing(answer.stderr)) throw failed(engine, `remove the container ${name}`, answer)
  if (engine.name !== 'container') return
  const { stdout } = await ask(engine, ['volume', 'list', '--quiet'])
  const volumes = stdout.split('\n').filter((volume) => volume.startsWith(ownVolumes(name)))
  if (volumes.length > 0) await ask(engine, ['volume', 'delete', ...volumes])
}
