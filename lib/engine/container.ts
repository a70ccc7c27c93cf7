/** The container of a project: its name, and the command lines that create it and enter it. Pure. */
import { crypto, path } from '../base/builtin.js'
import { INSIDE } from './enter.js'
import type { Engine } from './find.js'

/** What a container is made for. All paths are real and absolute. */
export interface ContainerPlan {
  /** The project: its directory, and possibly that of its repository. */
  project: string[]
  image: string
  /** The directory with the files of nacre. */
  runtime: string
  mounts: { source: string; readOnly: boolean }[]
  own: string[]
  network: string | undefined
  cpus: number | undefined
  memory: string | undefined
  grace: number
  user: { uid: number; gid: number }
  /** Whether commands get the rights of the container: they are root, and no rule takes them away. */
  isUnrestricted: boolean
}

/** The capabilities for isolation and copy-on-write workspaces. Commands of another user than root never have them. */
const CAPABILITIES = ['SYS_ADMIN', 'NET_ADMIN', 'SYS_PTRACE']
/** Docker has made control groups writable since this version. */
const WRITABLE_CGROUPS = 28

/** The arguments of the engine that create and start the container. */
export function creation(engine: Engine, plan: ContainerPlan): string[] {
  const [project = '/'] = plan.project
  const volumes = [
    ...plan.project.map((source) => bind(source, source, false)),
    ...plan.mounts.map(({ source, readOnly }) => bind(source, source, readOnly)),
    bind(plan.runtime, INSIDE, true),
    // The layers of workspaces cannot lie on the layers of the container itself.
    ...['/var/lib/nacre', ...plan.own].map(volume),
  ]
  const { network, cpus, memory } = plan
  const options = [
    ...['--label', 'dev.nacre=1', '--label', `dev.nacre.project=${project}`],
    ...['--entrypoint', `${INSIDE}/nacre-supervisor`, '--user', '0:0', '--workdir', project],
    ...volumes.flat(),
    // Its default is to pass the proxy of this machine, which may have a password in its address.
    ...(engine.name === 'podman' ? ['--http-proxy=false'] : PROXIES.flatMap((name) => ['--env', `${name}=`])),
    ...rights(engine, plan.isUnrestricted),
    // Otherwise the files of the project belong to another user inside, and podman would make the project the home of this one.
    ...(engine.name === 'podman' && engine.isRootless && plan.user.uid !== 0
      ? ['--userns', 'keep-id', '--passwd=false']
      : []),
    ...(network === undefined ? [] : ['--network', network]),
    // Podman adds this name by itself. Networks of other kinds refuse it.
    ...(network === undefined && engine.name === 'docker'
      ? ['--add-host', 'host.docker.internal:host-gateway']
      : []),
    ...(cpus === undefined ? [] : ['--cpus', String(cpus)]),
    ...(memory === undefined ? [] : ['--memory', memory]),
    ...['--log-driver', 'none', '--pids-limit', '-1', '--pull', 'never'],
  ]
  return [...options, plan.image, '--init', String(plan.grace)]
}

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

function mount(fields: string[]): string[] {
  const quoted = fields.map((field) => (/[",]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field))
  return ['--mount', quoted.join(',')]
}

function rights({ name, version }: Engine, isUnrestricted: boolean): string[] {
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

/** Equal for all clients with the same project and options, and different for others. */
export function nameOf(plan: ContainerPlan, args: string[]): string {
  const hash = crypto().createHash('sha256').update(JSON.stringify(args)).digest('hex').slice(0, 10)
  const slug = path
    .basename(plan.project[0] ?? '')
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 24)
  return ['nacre', slug, hash].filter(Boolean).join('-')
}
