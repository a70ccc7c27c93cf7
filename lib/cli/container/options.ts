/** The options of verbs that run something in a container of the project. */
import { type Command, Option } from 'commander'
import { invalidOption } from '../../base/errors.js'
import type { EngineOptions, EngineSandbox } from '../../calls/engine.js'
import { onSignals } from '../signals.js'
import { note } from '../terminal.js'
import { several } from '../values.js'

/** What commander has read. */
export interface ContainerFlags {
  engine?: 'docker' | 'podman' | 'container'
  image?: string
  runtime?: string
  mount?: string[]
  own?: string[]
  root?: true
  setup?: string
  fresh?: true
}

/** The same, where there may be a virtual machine instead. */
export interface MachineFlags extends ContainerFlags {
  vm?: true
  kernel?: string
  emulate?: true
}

const NAMES = ['engine', 'image', 'runtime', 'mount', 'own', 'root', 'setup', 'fresh'] as const

export function engineOption(): Option {
  const meaning = "the engine: docker, podman or container, Apple's (default: the first that answers)"
  return new Option('--engine <engine>', meaning).choices(['docker', 'podman', 'container'])
}

export function addContainerOptions(verb: Command): Command {
  return verb
    .addOption(engineOption())
    .option('--image <image>', 'the image of the container (default: node:22)')
    .option('--runtime <name>', 'its OCI runtime, like runsc (default: that of the engine)')
    .option('--mount <path>', 'what else the container has, to read only; can be repeated', several)
    .option(
      '--own <directory>',
      'a directory that the container has for itself, like node_modules; can be repeated',
      several,
    )
    .option('--root', 'run commands as root of the container')
    .option('--setup <command>', 'what root runs in the container once, when it is new')
    .option('--fresh', 'make the container new, although one is kept')
}

export function addMachineOptions(verb: Command): Command {
  return verb
    .option(
      '--vm',
      'a virtual machine with a kernel of its own and the files of this machine, and no network but --allow',
    )
    .option('--kernel <file>', 'with --vm: its kernel (default: that of this machine)')
    .option('--emulate', 'with --vm: emulate the processor, which is slow, and needs no /dev/kvm')
}

/** Throws OptionError if an option needs a container or a virtual machine, and there is none. */
export function refuseContainerOptions(flags: MachineFlags): void {
  const given = NAMES.find((name) => flags[name] !== undefined)
  if (given !== undefined) throw invalidOption(`--${given} is for a container: add --container`)
  refuseMachineOptions(flags)
}

export function refuseMachineOptions({ kernel, emulate }: MachineFlags): void {
  const given = kernel === undefined ? emulate && 'emulate' : 'kernel'
  if (given !== undefined) throw invalidOption(`--${given} is for a virtual machine: add --vm`)
}

/** Opens the container of the project, or a virtual machine. A signal ends the start. */
export async function openContainer(
  flags: MachineFlags,
  { isolation, network, ...options }: Pick<EngineOptions, 'cwd' | 'env' | 'isolation' | 'network'>,
): Promise<EngineSandbox> {
  const { engine, image, runtime, mount = [], own, root, setup, fresh, vm, kernel, emulate } = flags
  if (!vm) refuseMachineOptions(flags)
  const other = (['engine', 'root'] as const).find((name) => flags[name] !== undefined)
  if (vm && other !== undefined) throw invalidOption(`--${other} is not possible with --vm`)
  const { openSandbox } = await import('../../engine/open.js')
  const stop = new AbortController()
  const ignore = onSignals(() => stop.abort())
  try {
    return await openSandbox({
      ...options,
      network,
      // The sessions of a preset have the network of the virtual machine around them.
      isolation:
        network && typeof isolation === 'string' ? { preset: isolation, network: 'host' } : isolation,
      ...{ where: 'container', engine: vm ? 'vm' : engine },
      ...{ image, runtime, own, setup, fresh, kernel, emulate },
      mounts: mount.map((source) => ({ source, readOnly: true })),
      user: root ? 'root' : 'me',
      onProgress: note,
      signal: stop.signal,
    })
  } finally {
    ignore()
  }
}
