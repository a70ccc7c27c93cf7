/**
 * A virtual machine with a kernel of its own, in which the files of this machine are at their paths, and nacre's server in it.
 *
 * `nacre-supervisor --vm` starts it: crates/vm has the rest.
 */
import { thisMachine } from '../addon/machine.js'
import { findPackage, programDirectories } from '../addon/search.js'
import { destination } from '../backends/native/plan/isolation.js'
import { refuseAborted } from '../base/abort.js'
import { fs, os, path } from '../base/builtin.js'
import { invalidOption, isCode, SandboxError } from '../base/errors.js'
import { homeDirectory } from '../base/home.js'
import { absolute } from '../base/working-directory.js'
import type { EngineOptions, openSandboxOptions } from '../calls/engine.js'
import { encodeEnv } from '../schema/env.js'
import { completeRules, SECRETS } from '../schema/isolation-rules.js'
import type { CompleteValues } from '../schema/kind.js'
import { awaitServer } from './connect.js'
import { REFUSED } from './enter.js'
import { guarding, refusalOf } from './enter-container.js'
import { gitSettings } from './git.js'
import { type Place, readPlaces, refuseRuntime } from './mounts.js'
import { type Outlet, openOutlet } from './outlet.js'
import { Program } from './program.js'
import { homes, identityOf, projectOf, realPath } from './project.js'
import { prepareRuntime } from './runtime.js'
import { SearchPath } from './search-path.js'
import { bootAhead, takeSpare } from './spare.js'

type Values = CompleteValues<typeof openSandboxOptions>

/** The variable with the settings of the machine. Its value is on no command line, which all users can see. */
const SETTINGS = 'NACRE_VM'
/** Bytes of its value: Linux takes at most 128 KiB for a variable. */
const MOST_SETTINGS = 130_000
/** Milliseconds in which the server must answer. */
const ANSWER_MS = 30_000
/** The same, where QEMU emulates the processor. */
const EMULATED_MS = 180_000
/** The exit code of `--vm` if there cannot be a machine. The last line of its errors has the reason. */
const UNAVAILABLE = 74
/** MiB. */
const LEAST_MEMORY = 512
const MOST_MEMORY = 4096
const MOST_PROCESSORS = 4
/** Bytes. */
const UNITS: Record<string, number> = { b: 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30 }
const MEBIBYTE = 2 ** 20

/** Only a container has them. */
const OF_CONTAINERS = ['image', 'own', 'setup', 'fresh', 'grace', 'pull', 'runtime'] as const
/** What programs may know of this machine. */
const VARIABLES = ['PATH', 'LANG', 'LC_ALL', 'LOGNAME', 'SHELL', 'TZ', 'USER']

/** Resolves when the server answers. `options` are as the caller gave them. Rejects with VM_UNAVAILABLE. */
export async function enterMachine(values: Values, options: EngineOptions): Promise<Program> {
  refuseOthers(values, options)
  const plan = await planOf(values, options)
  const { hide, kernel, places } = plan.settings
  const files = [...places.map((place) => place.path), ...hide, kernel ?? '']
  const likeness = { text: JSON.stringify([plan, files.map(identityOf)]), ask: plan.network?.ask }
  const program = (await takeSpare(likeness, values.signal)) ?? (await boot(plan, values.signal, true))
  if (values.spare) bootAhead(likeness, () => boot(plan, undefined, false))
  return program
}

type Plan = Awaited<ReturnType<typeof planOf>>

/** What is decided before anything is started. */
async function planOf(values: Values, options: EngineOptions) {
  const { signal, emulate, network } = values
  const cwd = realPath(absolute(values.cwd ?? '.'), 'cwd', 'CWD_NOT_FOUND')
  const project = projectOf(cwd)
  const places = readPlaces(cwd, project, values.mounts)
  const search = new SearchPath(places.flatMap(({ source, readOnly }) => (readOnly ? [] : [source])))
  const runtime = prepareRuntime(process.arch).directory
  refuseRuntime(runtime, places)
  const git = await gitSettings(cwd, signal, search)
  refuseAborted(signal, 'opening the sandbox')
  const settings = {
    emulate,
    kernel: values.kernel === undefined ? packagedKernel() : path.resolve(cwd, values.kernel),
    memory: memoryOf(values.memory),
    cpus: values.cpus ?? Math.min(os.availableParallelism(), MOST_PROCESSORS),
    path: search.env.PATH,
    places: inOrder([...places, { name: 'runtime', source: runtime, readOnly: true }]),
    hide: hidden(),
  }
  const env = {
    // Those that are not set are left out: without TZ, the machine's time zone holds.
    ...Object.fromEntries(VARIABLES.map((name) => [`NACRE_ENV_${name}`, process.env[name]])),
    PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
    // It reads settings in its home directory, and commands must not be able to write there.
    HOME: runtime,
    BUN_RUNTIME_TRANSPILER_CACHE_PATH: '0',
    NACRE_NATIVE_PATH: path.join(runtime, thisMachine().libc === 'musl' ? 'musl' : 'gnu'),
    NACRE_HOME: homeDirectory(),
  }
  const inside = {
    cwd,
    env: { ...git, ...(values.env && encodeEnv(values.env)) },
    isolation: options.isolation && guarding(options.isolation),
  }
  const server = { argv: [nodeOf(search), path.join(runtime, 'inside.mjs')], env }
  return { settings, server, inside, runtime, network: typeof network === 'object' ? network : undefined }
}

/** `isHeld`: whether the boot keeps this process alive. */
async function boot(plan: Plan, signal: AbortSignal | undefined, isHeld: boolean): Promise<Program> {
  const outlet = plan.network && (await openOutlet(plan.network, signal))
  try {
    const program = await start(plan, outlet, signal, isHeld)
    void program.ended.then(outlet?.close)
    return program
  } catch (error) {
    await outlet?.close()
    throw error
  }
}

async function start(
  plan: Plan,
  outlet: Outlet | undefined,
  signal: AbortSignal | undefined,
  isHeld: boolean,
): Promise<Program> {
  const { server, runtime } = plan
  const inside = JSON.stringify({ ...plan.inside, env: { ...outlet?.env, ...plan.inside.env } })
  const settings = JSON.stringify({
    ...plan.settings,
    outlet: outlet?.pid,
    server: { ...server, env: { ...server.env, NACRE_INSIDE: inside } },
  })
  if (Buffer.byteLength(settings) > MOST_SETTINGS)
    throw invalidOption(`env, isolation and mounts must have at most ${MOST_SETTINGS} bytes together`)
  const names = Object.keys(process.env)
  const program = new Program({
    argv: [path.join(runtime, 'nacre-supervisor'), '--vm'],
    name: 'the virtual machine',
    cwd: '/',
    // A guest that breaks out must find no secrets of this process.
    env: { names: [...names, SETTINGS], values: [...names.map(() => null), settings] },
    onStderr: undefined,
    logger: undefined,
    hasControl: true,
  })
  program.hold(isHeld)
  try {
    await awaitServer(program, plan.settings.emulate ? EMULATED_MS : ANSWER_MS, signal)
    return program
  } catch (error) {
    throw explain(error, program)
  }
}

/** Throws OptionError for options of containers, and RUNTIME_UNSUPPORTED where there is no such machine. */
function refuseOthers({ network, cpus, isolation }: Values, options: EngineOptions): void {
  const other = OF_CONTAINERS.find((name) => options[name] !== undefined)
  if (other !== undefined) throw invalidOption(`${other} is for a container: leave it out with engine 'vm'`)
  if (typeof network === 'string' && network !== 'none')
    throw invalidOption(`network must be 'none' or { allow } with engine 'vm', not ${network}`)
  const inside = isolation && completeRules(isolation).network
  if (typeof inside === 'object' || (typeof network === 'object' && inside === 'none'))
    throw invalidOption("isolation.network must be 'host' with engine 'vm': give hosts in network")
  if (!Number.isInteger(cpus ?? 1))
    throw invalidOption(`cpus must be a whole number with engine 'vm', not ${cpus}`)
  if (process.platform === 'linux' && process.arch === 'x64') return
  const message = `a virtual machine needs Linux on x64, and this is ${process.platform} on ${process.arch}: use a container`
  throw new SandboxError('RUNTIME_UNSUPPORTED', message)
}

/** The kernel of `@nacre/kernel-x64`; null if it is not installed beside nacre. */
function packagedKernel(): string | null {
  const directory = findPackage('@nacre/kernel-x64', programDirectories())
  return directory === undefined ? null : path.join(directory, 'vmlinux')
}

/** MiB. */
function memoryOf(given: string | undefined): number {
  if (given === undefined)
    return Math.max(LEAST_MEMORY, Math.min(MOST_MEMORY, Math.floor(os.totalmem() / MEBIBYTE / 2)))
  const unit = UNITS[given.slice(-1).toLowerCase()]
  const size = Math.floor((Number.parseInt(given, 10) * (unit ?? 1)) / MEBIBYTE)
  const most = Math.floor(os.totalmem() / MEBIBYTE)
  if (size < LEAST_MEMORY || size > most)
    throw invalidOption(`memory must be ${LEAST_MEMORY}m to ${most}m with engine 'vm', not ${given}`)
  return size
}

/** Those above come before those below, which they would cover. */
function inOrder(places: Place[]): Array<{ path: string; readOnly: boolean }> {
  return places
    .map(({ source, readOnly }) => ({ path: source, readOnly }))
    .sort((one, other) => one.path.length - other.path.length)
}

/** The real paths of secrets, which may be missing, and of what nacre keeps. */
function hidden(): string[] {
  const { XDG_STATE_HOME = '' } = process.env
  const state = path.isAbsolute(XDG_STATE_HOME) ? XDG_STATE_HOME : '~/.local/state'
  const files = homes().flatMap((home) =>
    [...SECRETS, `${state}/nacre`].map((file) => destination(file.replace(/^~/, () => home))),
  )
  return [...new Set(files)]
}

/** The program of this process, unless that is an application of its own. */
function nodeOf(search: SearchPath): string {
  const own = fs.realpathSync(process.execPath)
  if (/^(node|nodejs|bun)$/.test(path.basename(own))) return own
  const node = search.find('node')
  if (node !== undefined) return fs.realpathSync(node)
  throw new SandboxError('RUNTIME_UNSUPPORTED', 'a virtual machine needs Node.js on this machine: install it')
}

function explain(error: unknown, { exitCode, lastWords }: Program): unknown {
  if (!isCode(error, 'CONNECTION_FAILED')) return error
  const lines = lastWords.split('\n')
  const [, reason, problem] = /^([a-z-]+): (.*)$/.exec(lines.at(-1) ?? '') ?? []
  if (exitCode === UNAVAILABLE && reason !== undefined) return unavailable(`${reason}: ${problem}`, error)
  if (lines.includes(`nacre: the server has ended with exit code ${REFUSED}`)) {
    const refusal = lines.map((line) => refusalOf(line)).find((one) => one !== undefined)
    if (refusal !== undefined) return refusal
  }
  const printed = lastWords === '' ? 'it printed nothing' : `it printed:\n${lastWords}`
  return unavailable(`boot-failed: the guest does not answer; ${printed}`, error)
}

function unavailable(what: string, cause: Error): SandboxError {
  return new SandboxError('VM_UNAVAILABLE', `there cannot be a virtual machine here: ${what}`, { cause })
}
