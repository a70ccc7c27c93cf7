/** The container of a project: its name, and the command line that creates it. Pure. */
import { crypto, path } from '../base/builtin.js'
import { labelsOf } from './dialect.js'
import { INSIDE, SUPERVISOR } from './enter.js'
import type { Engine } from './find.js'
import type { Project } from './project.js'

/** What a container is made for. All paths are real and absolute. */
export interface ContainerPlan {
  /** The project: its directory, and possibly that of its repository. */
  project: Project
  image: string
  /** The directory with the files of nacre. */
  runtime: string
  mounts: { source: string; readOnly: boolean }[]
  own: string[]
  network: string | undefined
  cpus: number | undefined
  memory: string | undefined
  /** What runs it in place of the engine's runtime. */
  ociRuntime: string | undefined
  grace: number
  /** What root runs in it once. */
  setup: string | undefined
  user: { uid: number; gid: number }
  /** Whether commands get the rights of the container: they are root, and no rule takes them away. */
  isUnrestricted: boolean
}

/** The capabilities for isolation and copy-on-write workspaces. Commands of another user than root never have them. */
const CAPABILITIES = ['SYS_ADMIN', 'NET_ADMIN', 'SYS_PTRACE']
/** Docker has made control groups writable since this version. */
const WRITABLE_CGROUPS = 28

/** How to create a container. */
export interface Creation {
  /** Equal for all clients with the same project and options, and different for others. */
  name: string
  /** The arguments after `run --detach --name NAME`. */
  args: string[]
}

export function creation(engine: Engine, plan: ContainerPlan): Creation {
  const [project] = plan.project
  const name = nameOf(plan, argsOf(engine, plan, project, ''))
  const labels = labelsOf({ name, image: plan.image, project, runtime: path.basename(plan.runtime) })
  return { name, args: [...labels, ...argsOf(engine, plan, project, name)] }
}

/** The directories that the container has for itself. */
function volumes({ name }: Engine, { own }: ContainerPlan, container: string): string[] {
  // Apple's anonymous volumes cannot be told from those of others. Its containers lie on a file system of their own.
  if (name === 'container') return own.flatMap((target, at) => named(`${ownVolumes(container)}${at}`, target))
  // Elsewhere, the layers of workspaces cannot lie on the layers of the container itself.
  return ['/var/lib/nacre', ...own].flatMap(volume)
}

/** What the names of the volumes begin with where a container of Apple's keeps its own directories. */
export function ownVolumes(container: string): string {
  return `${container}-own-`
}

function argsOf(engine: Engine, plan: ContainerPlan, project: string, name: string): string[] {
  const mounts = [
    ...plan.project.map((source) => bind(source, source, false)),
    ...plan.mounts.map(({ source, readOnly }) => bind(source, source, readOnly)),
    bind(plan.runtime, INSIDE, true),
    volumes(engine, plan, name),
  ]
  const { network, cpus, memory, ociRuntime } = plan
  const options = [
    ...['--entrypoint', SUPERVISOR, '--user', '0:0', '--workdir', project],
    ...mounts.flat(),
    ...rights(engine, plan.isUnrestricted),
    ...(network === undefined ? [] : ['--network', network]),
    ...(cpus === undefined ? [] : ['--cpus', String(cpus)]),
    ...(memory === undefined ? [] : ['--memory', memory]),
    ...(ociRuntime === undefined ? [] : ['--runtime', ociRuntime]),
    ...particulars(engine, plan),
  ]
  return [...options, plan.image, '--init', String(plan.grace)]
}

/** What only some engines know. */
function particulars({ name, isRootless }: Engine, { network, memory, user }: ContainerPlan): string[] {
  if (name === 'container')
    return [...(memory === undefined ? ['--memory', MEMORY] : []), '--progress', 'none']
  return [
    // Its default is to pass the proxy of this machine, which may have a password in its address.
    ...(name === 'podman' ? ['--http-proxy=false'] : PROXIES.flatMap((proxy) => ['--env', `${proxy}=`])),
    // Otherwise the files of the project belong to another user inside, and podman would make the project the home of this one.
    ...(name === 'podman' && isRootless && user.uid !== 0 ? ['--userns', 'keep-id', '--passwd=false'] : []),
    // Podman adds this name by itself. Networks of other kinds refuse it.
    ...(network === undefined && name === 'docker'
      ? ['--add-host', 'host.docker.internal:host-gateway']
      : []),
    ...['--log-driver', 'none', '--pids-limit', '-1', '--pull', 'never'],
    // The engine would run it as root, in the project.
    '--no-healthcheck',
    // PID 1 is nacre's, whatever the engine's settings say, and ends in order by this signal, whatever the image says.
    ...['--init=false', '--stop-signal', 'SIGTERM'],
  ]
}

/** The memory of a machine of Apple's, which has 1 GiB by itself. */
const MEMORY = '4g'

/** Docker sets them to what its settings on this machine say, unless they are given. */
const PROXIES = ['HTTP', 'HTTPS', 'FTP', 'ALL', 'NO'].flatMap((kind) => [
  `${kind}_PROXY`,
  `${kind.toLowerCase()}_proxy`,
])

/** `--volume` splits at colons, and `--mount` at commas. */
function bind(source: string, target: string, isReadOnly: boolean): string[] {
  if (!source.includes(':')) return ['--volume', `${source}:${target}${isReadOnly ? ':ro' : ''}`]
  return mount(['type=bind', `source=${source}`, `target=${target}`, ...(isReadOnly ? ['readonly'] : [])])
}

/** A volume that belongs to the container alone. */
function volume(target: string): string[] {
  return target.includes(':') ? mount(['type=volume', `target=${target}`]) : ['--volume', target]
}

function named(name: string, target: string): string[] {
  if (!target.includes(':')) return ['--volume', `${name}:${target}`]
  return mount(['type=volume', `source=${name}`, `target=${target}`])
}

function mount(fields: string[]): string[] {
  const quoted = fields.map((field) => (/[",]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field))
  return ['--mount', quoted.join(',')]
}

function rights({ name, version }: Engine, isUnrestricted: boolean): string[] {
  if (name === 'container')
    return isUnrestricted ? [] : CAPABILITIES.flatMap((capability) => ['--cap-add', `CAP_${capability}`])
  // SELinux would deny the project.
  const always = ['--security-opt', 'label=disable']
  if (isUnrestricted) return always
  const writable = name === 'podman' ? 'unmask=/sys/fs/cgroup' : 'writable-cgroups=true'
  const hasWritable = name === 'podman' || Number.parseInt(version, 10) >= WRITABLE_CGROUPS
  return [
    ...always,
    ...CAPABILITIES.flatMap((capability) => ['--cap-add', capability]),
    // Its profile for containers denies mounts. Without AppArmor, podman refuses the option.
    ...(name === 'docker' ? ['--security-opt', 'apparmor=unconfined'] : []),
    ...(hasWritable ? ['--security-opt', writable] : []),
  ]
}

function nameOf({ project, setup }: ContainerPlan, args: string[]): string {
  const hash = crypto()
    .createHash('sha256')
    .update(JSON.stringify([args, setup]))
    .digest('hex')
    .slice(0, 10)
  const slug = path
    .basename(project[0])
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 24)
  return ['nacre', slug, hash].filter(Boolean).join('-')
}
