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
  mount?: string[]
  own?: string[]
  root?: true
  setup?: string
  fresh?: true
}

const NAMES = ['engine', 'image', 'mount', 'own', 'root', 'setup', 'fresh'] as const

export function engineOption(): Option {
  const meaning = "the engine: docker, podman or container, Apple's (default: the first that answers)"
  return new Option('--engine <engine>', meaning).choices(['docker', 'podman', 'container'])
}

export function addContainerOptions(verb: Command): Command {
  return verb
    .addOption(engineOption())
    .option('--image <image>', 'the image of the container (default: node:22)')
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

/** Throws OptionError if an option needs a container, and there is none. */
export function refuseContainerOptions(flags: ContainerFlags): void {
  const given = NAMES.find((name) => flags[name] !== undefined)
  if (given !== undefined) throw invalidOption(`--${given} is for a container: add --container`)
}

/** Opens the container of the project. A signal ends the start. */
export async function openContainer(
  flags: ContainerFlags,
  options: Pick<EngineOptions, 'cwd' | 'env' | 'isolation'>,
): Promise<EngineSandbox> {
  const { engine, image, mount = [], own, root, setup, fresh } = flags
  const { openSandbox } = await import('../../engine/open.js')
  const stop = new AbortController()
  const ignore = onSignals(() => stop.abort())
  try {
    return await openSandbox({
      ...options,
      ...{ where: 'container', engine, image, own, setup, fresh },
      mounts: mount.map((source) => ({ source, readOnly: true })),
      user: root ? 'root' : 'me',
      onProgress: note,
      signal: stop.signal,
    })
  } finally {
    ignore()
  }
}
