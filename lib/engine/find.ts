/** Finds the container engine: programs that are installed, and the first of them that answers. */
import { refuseAborted } from '../base/abort.js'
import { SandboxError } from '../base/errors.js'
import { type Answer, call, reasonOf } from './call.js'
import type { SearchPath } from './search-path.js'

/** The engines, in the order in which they are tried. 'container' is Apple's. */
export const ENGINES = ['docker', 'podman', 'container'] as const

/** Podman names only its default. It knows these by their names, with these programs. */
const OF_PODMAN = [
  ...['crun', 'runc', 'runsc', 'krun', 'youki'].map((name) => ({ name, program: name })),
  { name: 'kata', program: 'kata-runtime' },
]

/** Milliseconds that an engine has to answer. */
const PROBE_MS = 3000

export type EngineName = (typeof ENGINES)[number]

/** A container engine that answers. */
export interface Engine {
  name: EngineName
  /** Absolute path of its program. */
  file: string
  /** The environment of its program, with all directories where helpers for credentials may be. */
  env: NodeJS.ProcessEnv
  version: string
  /** The processor of its containers, as in `process.arch`. */
  arch: string
  isRootless: boolean
  /** The OCI runtimes that it names: some of those that it can use. */
  runtimes: string[]
}

/** What an engine answers about itself. */
interface About {
  version: unknown
  os: unknown
  arch: unknown
  isRootless: boolean
  runtimes: string[]
}

interface Kind {
  probe: string[]
  read(answer: string): About
  /** How to start it on this platform. */
  start(platform: string): string
  /** The only platform that has it. Programs of others may have the same name. */
  platform?: NodeJS.Platform
}

const KINDS: Record<EngineName, Kind> = {
  docker: {
    probe: ['info', '--format', '{{json .}}'],
    read(answer) {
      const { ServerVersion, OSType, Architecture, SecurityOptions, Runtimes } = JSON.parse(answer)
      const isRootless = [SecurityOptions ?? []].flat().some((option) => String(option).includes('rootless'))
      const runtimes = Object.keys(Runtimes ?? {})
      return { version: ServerVersion, os: OSType, arch: Architecture, isRootless, runtimes }
    },
    start: (platform) =>
      platform === 'darwin' ? 'open -a Docker, orb start or colima start' : 'systemctl start docker',
  },
  podman: {
    probe: ['info', '--format', '{{json .}}'],
    read(answer) {
      const { version, host } = JSON.parse(answer)
      return {
        version: version?.Version,
        os: host.os,
        arch: host.arch,
        isRootless: host.security.rootless === true,
        runtimes: [host.ociRuntime?.name].filter((name) => typeof name === 'string'),
      }
    },
    start: (platform) => (platform === 'darwin' ? 'podman machine start' : 'podman info shows what it lacks'),
  },
  container: {
    probe: ['system', 'status', '--format', 'json'],
    read(answer) {
      const { status, server, apiServerVersion } = JSON.parse(answer)
      // Version 1.4 has moved it.
      const version = /\d+\.\d+\S*/.exec(String(server?.version ?? apiServerVersion))?.[0]
      return {
        version: status === 'running' ? version : undefined,
        os: 'linux',
        arch: process.arch,
        isRootless: false,
        runtimes: [],
      }
    },
    start: () => 'container system start',
    platform: 'darwin',
  },
}

const PROCESSORS: Record<string, string> = { amd64: 'x64', x86_64: 'x64', aarch64: 'arm64' }

/** The processor's name as in `process.arch`. */
export function processorOf(name: string): string {
  return PROCESSORS[name] ?? name
}

/** An engine whose program is installed. */
export interface Installed {
  name: EngineName
  file: string
  /** The engine, or why it cannot be used. */
  found: Promise<Engine | string>
  /** How to start it. */
  start: string
}

/** All engines that are installed, or the wanted one, in the order in which they are tried. All are asked at once. */
export function installedEngines(
  wanted: EngineName | 'auto',
  signal: AbortSignal | undefined,
  search: SearchPath,
): Installed[] {
  const { env } = search
  return ENGINES.flatMap((name) => {
    const kind = KINDS[name]
    const isCandidate =
      wanted === 'auto' ? [undefined, process.platform].includes(kind.platform) : wanted === name
    const file = isCandidate ? search.find(name) : undefined
    if (file === undefined) return []
    const ask = async () => {
      const about = readAnswer(kind, await call(file, kind.probe, { env, timeout: PROBE_MS, signal }))
      if (typeof about === 'string') return about
      const known = name === 'podman' && process.platform === 'linux' ? OF_PODMAN : []
      const found = known.filter(({ program }) => search.find(program) !== undefined).map((one) => one.name)
      return { name, file, env, ...about, runtimes: [...new Set([...about.runtimes, ...found])] }
    }
    return [{ name, file, found: ask(), start: kind.start(process.platform) }]
  })
}

/** The first engine that answers, or the wanted one. Rejects with ENGINE_NOT_FOUND. */
export async function findEngine(
  wanted: EngineName | 'auto',
  signal: AbortSignal | undefined,
  search: SearchPath,
): Promise<Engine> {
  const problems: string[] = []
  // The first in order is taken as soon as it has answered.
  for (const { name, file, found, start } of installedEngines(wanted, signal, search)) {
    const engine = await found
    refuseAborted(signal, 'opening the sandbox')
    if (typeof engine !== 'string') return engine
    problems.push(withStart(`${name} (${file}) cannot be used: ${engine}`, start))
  }
  throw notFound(wanted, problems, search)
}

/** A message about an engine, and how to start the engine. What engines say ends with or without a stop. */
export function withStart(message: string, start: string): string {
  return `${message}${/[.!?]$/.test(message) ? '' : '.'} To start it: ${start}`
}

/** The engine, or why it cannot be used. */
function readAnswer(
  { read }: Kind,
  answer: Answer,
): Pick<Engine, 'version' | 'arch' | 'isRootless' | 'runtimes'> | string {
  if (answer.isLate) return `it did not answer within ${PROBE_MS / 1000} s`
  if (!answer.isOk && answer.stderr !== '') return reasonOf(answer)
  try {
    const { version, os: system, arch, isRootless, runtimes } = read(answer.stdout)
    if (typeof version !== 'string' || version === '' || typeof arch !== 'string')
      return 'its service does not answer'
    if (system !== 'linux') return `it runs containers of ${system}, not of Linux`
    return { version, arch: processorOf(arch), isRootless, runtimes }
  } catch {
    return 'its answer is not that of the engine'
  }
}

/** The error when none of these engines can be used. */
export function notFound(wanted: EngineName | 'auto', problems: string[], search: SearchPath): SandboxError {
  return new SandboxError('ENGINE_NOT_FOUND', explain(wanted, problems, search))
}

function explain(wanted: EngineName | 'auto', problems: string[], search: SearchPath): string {
  if (problems.length > 0) return `no container engine answers\n${problems.join('\n')}`
  if (wanted === 'auto') {
    const apple = process.platform === 'darwin' ? ", Apple's container" : ''
    return `there is no container engine: install Docker Desktop, OrbStack, Colima, Rancher Desktop (moby)${apple} or Podman`
  }
  const others = ENGINES.filter((name) => search.find(name) !== undefined)
  const but = others.length > 0 ? `, but ${others.join(' and ')} ${others.length > 1 ? 'are' : 'is'}` : ''
  return `the container engine ${wanted} is not installed${but}: install it, or leave out engine`
}
