/** What `nacre doctor` finds about container engines, and about the containers of nacre that run. */
import type { Capabilities } from '../../calls/index.js'
import type { Engine } from '../../engine/find.js'
import type { Finding } from '../finding.js'

interface Examined {
  name: string
  engine: string
  image: string
  /** What works inside. */
  capabilities?: Capabilities
  /** Why it could not be examined. */
  problem?: string
}

export async function examineEngines(): Promise<{ engines: Finding[]; containers: Examined[] }> {
  const { installedEngines } = await import('../../engine/find.js')
  const { SearchPath } = await import('../../engine/search-path.js')
  const installed = installedEngines('auto', undefined, SearchPath.around('.'))
  const engines: Finding[] = []
  const containers: Examined[] = []
  for (const { name, file, found, start } of installed) {
    const engine = await found
    if (typeof engine === 'string') {
      const remedy = `To start it: ${start}`
      engines.push({ level: 'warn', subject: `engine ${name}`, text: `${file}: ${engine}`, remedy })
      continue
    }
    const rootless = engine.isRootless ? ', rootless' : ''
    const runtimes = engine.runtimes.length === 0 ? '' : `, runtimes: ${engine.runtimes.join(', ')}`
    engines.push({
      level: 'ok',
      subject: `engine ${name}`,
      text: `${file}: version ${engine.version}${rootless}${runtimes}`,
    })
    try {
      containers.push(...(await examineContainers(engine)))
    } catch (error) {
      engines.push({ level: 'warn', subject: `engine ${name}`, text: (error as Error).message, remedy: TRY })
    }
  }
  // Linux needs none.
  if (process.platform !== 'linux' && !engines.some(({ level }) => level === 'ok')) engines.push(NONE)
  return { engines, containers }
}

const TRY = 'Look at what the engine itself says.'

const NONE: Finding = {
  level: 'fail',
  subject: 'engines',
  text: 'no container engine answers, and this machine has no Linux',
  remedy:
    "Install or start Docker Desktop, OrbStack, Colima, Podman or Apple's container; on Windows, use WSL 2.",
}

async function examineContainers(engine: Engine): Promise<Examined[]> {
  const { listContainers } = await import('../../engine/containers.js')
  const { ownUser } = await import('../../engine/dialect.js')
  const { examineContainer } = await import('../../engine/open.js')
  // Those of others are not for this user to enter.
  const running = (await listContainers(engine)).filter(
    ({ isRunning, user }) => isRunning && user === ownUser(),
  )
  return Promise.all(
    running.map(async ({ name, image, project }) => {
      const about = { name, engine: engine.name, image }
      try {
        return { ...about, capabilities: await examineContainer(engine, name, project) }
      } catch (error) {
        return { ...about, problem: `${(error as Error).message}\n` }
      }
    }),
  )
}
