/** Finds the container engine: programs that are installed, and the first of them that answers. */
import { refuseAborted } from '../base/abort.js'
import { fs, os, path } from '../base/builtin.js'
import { SandboxError } from '../base/errors.js'
import { type Answer, call, reasonOf } from './call.js'

/** Programs that a graphical program starts have a short PATH. These are the places of the installers. */
const PLACES: Record<string, string[]> = {
  darwin: [
    ...['/usr/local/bin', '/opt/homebrew/bin', '~/.orbstack/bin', '~/.docker/bin'],
    '/Applications/Docker.app/Contents/Resources/bin',
    '/Applications/OrbStack.app/Contents/MacOS/xbin',
    ...['~/.rd/bin', '/opt/podman/bin', '/run/current-system/sw/bin'],
  ],
  linux: ['/usr/local/bin', '/usr/bin', '/bin'],
}

/** Milliseconds that an engine has to answer. */
const PROBE_MS = 3000

export type EngineName = 'docker' | 'podman'

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
}

/** What an engine answers about itself. */
interface About {
  version: unknown
  os: unknown
  arch: unknown
  isRootless: boolean
}

interface Kind {
  name: EngineName
  probe: string[]
  read(answer: string): About
  /** How to start it on this platform. */
  start(platform: string): string
}

/** In the order in which they are tried. */
const KINDS: Kind[] = [
  {
    name: 'docker',
    probe: ['info', '--format', '{{json .}}'],
    read(answer) {
      const { ServerVersion, OSType, Architecture, SecurityOptions } = JSON.parse(answer)
      const isRootless = [SecurityOptions ?? []].flat().some((option) => String(option).includes('rootless'))
      return { version: ServerVersion, os: OSType, arch: Architecture, isRootless }
    },
    start: (platform) =>
      platform === 'darwin' ? 'open -a Docker, orb start or colima start' : 'systemctl start docker',
  },
  {
    name: 'podman',
    probe: ['info', '--format', '{{json .}}'],
    read(answer) {
      const { version, host } = JSON.parse(answer)
      return {
        version: version?.Version,
        os: host.os,
        arch: host.arch,
        isRootless: host.security.rootless === true,
      }
    },
    start: () => 'podman machine start',
  },
]

const PROCESSORS: Record<string, string> = { amd64: 'x64', x86_64: 'x64', aarch64: 'arm64' }

/** The processor's name as in `process.arch`. */
export function processorOf(name: string): string {
  return PROCESSORS[name] ?? name
}

/** The directories of PATH, and those of installers. */
export function searchPath(platform: string = process.platform): string[] {
  const known = (PLACES[platform] ?? []).map((place) => place.replace(/^~/, os.homedir()))
  const given = (process.env.PATH ?? '')
    .split(path.delimiter)
    .filter((directory) => path.isAbsolute(directory))
  return [...new Set([...given, ...known])]
}

/** The absolute path of a program: a regular file that can be executed. */
export function findProgram(name: string, directories: string[]): string | undefined {
  return directories
    .map((directory) => path.join(directory, name))
    .find((file) => {
      try {
        fs.accessSync(file, fs.constants.X_OK)
        return fs.statSync(file).isFile()
      } catch {
        return false
      }
    })
}

/** The first engine that answers, or the wanted one. Rejects with ENGINE_NOT_FOUND. */
export async function findEngine(
  wanted: EngineName | 'auto',
  signal: AbortSignal | undefined,
): Promise<Engine> {
  const directories = searchPath()
  const env = { ...process.env, PATH: directories.join(path.delimiter) }
  const kinds = KINDS.filter(({ name }) => wanted === 'auto' || wanted === name)
  const tried = kinds.map(async (kind) => {
    const file = findProgram(kind.name, directories)
    if (file === undefined) return undefined
    const found = readAnswer(kind, await call(file, kind.probe, { env, timeout: PROBE_MS, signal }))
    return typeof found === 'string' ? problemOf(kind, file, found) : { name: kind.name, file, env, ...found }
  })
  const problems: string[] = []
  // All are asked at once, and the first in order is taken as soon as it has answered.
  for (const pending of tried) {
    const found = await pending
    refuseAborted(signal, 'opening the sandbox')
    if (typeof found === 'object') return found
    if (found !== undefined) problems.push(found)
  }
  throw new SandboxError('ENGINE_NOT_FOUND', explain(wanted, problems))
}

/** The engine, or why it cannot be used. */
function readAnswer(
  { read }: Kind,
  answer: Answer,
): Pick<Engine, 'version' | 'arch' | 'isRootless'> | string {
  if (answer.isLate) return `it did not answer within ${PROBE_MS / 1000} s`
  if (!answer.isOk) return reasonOf(answer)
  try {
    const { version, os: system, arch, isRootless } = read(answer.stdout)
    if (typeof version !== 'string' || version === '' || typeof arch !== 'string')
      return 'its service does not answer'
    if (system !== 'linux') return `it runs containers of ${system}, not of Linux`
    return { version, arch: processorOf(arch), isRootless }
  } catch {
    return 'its answer is not that of the engine'
  }
}

function problemOf({ name, start }: Kind, file: string, problem: string): string {
  return `${name} (${file}) cannot be used: ${problem}. To start it: ${start(process.platform)}`
}

function explain(wanted: EngineName | 'auto', problems: string[]): string {
  if (problems.length > 0) return `no container engine answers\n${problems.join('\n')}`
  if (wanted !== 'auto')
    return `the container engine ${wanted} is not installed: install it, or leave out engine`
  return 'there is no container engine: install Docker Desktop, OrbStack, Colima, Rancher Desktop (moby) or Podman'
}
