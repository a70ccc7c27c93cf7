/**
 * Sandboxes that a program of this machine leads to. `openSandbox` starts a Linux container where this machine has no
 * Linux, with Docker, Podman or Apple's container. `connectProgram` takes any program that connects its standard input and output to `nacre serve
 * --stdio`: `ssh`, `kubectl exec`, `limactl shell`, `wsl.exe`. No port is opened, and no token is needed.
 *
 * It runs on Node.js and Bun, on any system. All times are in milliseconds.
 *
 * @packageDocumentation
 */
import { either, list, object, oneOf, pattern, text } from '../schema/constructors.js'
import { env } from '../schema/env.js'
import { type Kind, table } from '../schema/kind.js'
import { milliseconds, processors } from '../schema/numbers.js'
import { directory, filePath } from '../schema/paths.js'
import { abortSignal } from '../schema/signals.js'
import { callback, flag, logger } from '../schema/values.js'
import type { SandboxClient } from './client.js'
import type {
  Answer,
  AnySandbox,
  EnvChanges,
  Forwarding,
  ForwardOptions,
  Isolation,
  Logger,
  Question,
} from './index.js'
import { isolation, networkOptions } from './isolation.js'

export type { AbortError, Forwarding, ForwardOptions, OptionError, SandboxError } from './index.js'

/** Options of {@link openSandbox}. On Linux without a container, only `where`, `cwd`, `env`, `isolation` and `signal` count. */
export interface EngineOptions {
  /**
   * Where commands run: 'here' is this machine, which must be Linux; 'container' is a container. 'auto' is 'here' on Linux
   * and 'container' elsewhere. Default: 'auto'.
   */
  where?: 'auto' | 'here' | 'container'
  /**
   * The container engine. 'auto' is the first that answers: Docker (also OrbStack, Colima), then Podman, and on a Mac then
   * 'container', Apple's. 'vm' is a virtual machine of QEMU instead, with a kernel of its own and the files of this machine at
   * their paths: Linux on x64 only, docs/vm.md. Default: 'auto'.
   */
  engine?: 'auto' | 'docker' | 'podman' | 'container' | 'vm'
  /**
   * The OCI runtime of the container, as `--runtime` of Docker and Podman takes it, like 'runsc' (gVisor) or 'kata'. Not with
   * Apple's container, where each container is a virtual machine. `nacre doctor` lists those that Docker names. Default: that of
   * the engine.
   */
  runtime?: string
  /**
   * With 'vm': the kernel, like `/boot/vmlinuz-VERSION` of Debian, Ubuntu or Fedora. Its modules must be in
   * `../lib/modules/VERSION` beside it, or in `/lib/modules/VERSION`. Default: that of `@nacre/kernel-x64`
   * beside nacre, otherwise that of this machine.
   */
  kernel?: string
  /**
   * With 'vm': whether QEMU emulates the processor, without `/dev/kvm`. For tests: programs run about 20 times slower.
   * Default: false.
   */
  emulate?: boolean
  /**
   * With 'vm': whether to boot another machine ahead, which the next call with the same options takes, also one without `spare`,
   * if the project, the mounts and the kernel are the same files then. There is at most one, with memory of its own. It ends with
   * this process, when a call with other options boots one ahead, and after 10 minutes. Default: false.
   */
  spare?: boolean
  /**
   * The image of the container: any Linux with bash for this machine's processor. If it has no Node.js 20.19 or newer, Bun is
   * fetched from npm, once. Default: 'node:22'.
   */
  image?: string
  /**
   * Directory in which sessions start. The container has the project around it at the same path: the top of the git
   * repository, or else this directory. Default: `process.cwd()`.
   */
  cwd?: string | URL
  /** Directories and files that the container has too, each at the same path. Default: []. */
  mounts?: EngineMount[]
  /**
   * Directories of the project that the container has for itself, like 'node_modules': there, programs for Linux and those
   * of this machine do not mix. They are created if they are missing, and stay empty outside. Default: [].
   */
  own?: string[]
  /** Variables of the sandbox; undefined removes a variable. A container gets no others of this machine. Default: none. */
  env?: EnvChanges
  /**
   * The user that commands run as in the container: 'me' has the ids of this user, so files belong to this user outside too.
   * With rootless Docker, 'root' is this user. Default: 'me'.
   */
  user?: 'me' | 'root'
  /**
   * What programs may read, write, reach and see, as in `SandboxOptions`. In a container, `filesystem.protect` is by default
   * what git and clients of MCP run on this machine, like `.git/hooks`, `.git/config` and `.mcp.json`, where they exist. Default:
   * no restrictions.
   */
  isolation?: Isolation
  /**
   * The network of the container, as `--network` of the engine takes it, like 'none'. With 'vm': the hosts that the virtual
   * machine reaches, or 'none'. Default: that of the engine; with 'vm' 'none'.
   */
  network?: string | EngineNetwork
  /**
   * The number of processors of the container; may be a fraction, but not with Apple's and 'vm'. Default: no limit; with 'vm'
   * all, at most 4.
   */
  cpus?: number
  /**
   * The memory of the container, as the engine takes it, like '4g'. Default: no limit, '4g' with Apple's, and with 'vm' half of
   * this machine's, at most '4g'. A virtual machine needs '512m' or more, and takes it when programs use it.
   */
  memory?: string
  /**
   * A command that root runs in the container once, when it is new, in the top directory of the project: shell text like
   * 'apt-get update && apt-get install -y ripgrep'. If it fails, the container is removed, and the call rejects with
   * CONTAINER_FAILED and the last of its output. A container with another command is another one. Default: none.
   */
  setup?: string
  /**
   * Whether to make the container new, although one is kept. The kept one is removed, also while other clients use it.
   * Default: false.
   */
  fresh?: boolean
  /**
   * Milliseconds that the container runs without any client and process, 0 to 2147483647, before it stops. Its files stay
   * until it is removed with the engine. Default: 30000.
   */
  grace?: number
  /** Whether a missing image is pulled. Default: 'missing'. */
  pull?: 'missing' | 'never'
  /** Receives what takes long, like 'pulling node:22'. Default: none. */
  onProgress?: (step: string) => void
  /** Ends the start and rejects the call, until the sandbox is open. Default: none. */
  signal?: AbortSignal
}

/**
 * The hosts that a virtual machine reaches, by TCP through a proxy of this machine that HTTP_PROXY and the like name. Its answer
 * names a refused host. Whatever root of the virtual machine does, there is no other way.
 */
export interface EngineNetwork {
  /** Hosts and ports that the proxy lets through, as in `isolation.network`: 'registry.npmjs.org:443', '*.github.com:443'. */
  allow: string[]
  /** Hosts and ports that it refuses, even within `allow` and whatever an answer says. Default: []. */
  deny?: string[]
  /** Is called with each host of neither list, and gives the answer, in 60 seconds. Default: none, they are refused. */
  ask?: (question: Question) => Answer | Promise<Answer>
}

/** A directory or file of this machine that a container has at the same path. */
export interface EngineMount {
  /** Its path. A relative path starts at `cwd`. */
  source: string
  /** Whether the container cannot write there. Default: false. */
  readOnly?: boolean
}

/** A mount has an argument of its own, and arguments are limited. */
const MOST_MOUNTS = 100

export const engineMountOptions = table<EngineMount>()({
  source: filePath,
  readOnly: { ...flag, default: false },
})

/** A name that no engine takes for an option. */
const imageName = pattern(/^[A-Za-z0-9][^\s\0]*$/, 'must be the name of an image, like node:22', {
  bounds: 'the name of an image',
})
const networkName = pattern(/^[A-Za-z0-9][^\s\0]*$/, 'must be the name of a network, like none', {
  bounds: 'the name of a network',
})
export const engineNetworkOptions = table<EngineNetwork>()({
  allow: networkOptions.allow,
  deny: networkOptions.deny,
  ask: callback,
})
const runtimeName = pattern(/^[A-Za-z0-9/][^\s\0]*$/, 'must be the name of an OCI runtime, like runsc', {
  bounds: 'the name of an OCI runtime',
})
const memorySize = pattern(/^[1-9]\d{0,15}[bkmg]?$/i, "must be an amount of memory like '4g' or '512m'", {
  bounds: "a number with b, k, m or g, like '4g'",
})

const MOST_SETUP = 65_536
const setupCommand = text(
  (value) =>
    value.trim() !== '' && new TextEncoder().encode(value).length <= MOST_SETUP && !value.includes('\0'),
  `must be a command of at most ${MOST_SETUP} bytes`,
  // It may have a password.
  { isSecret: true },
)

const mounts = list(object(engineMountOptions, ['source']), MOST_MOUNTS, {
  rule: 'must be a list of mounts like { source }',
  excess: `must have at most ${MOST_MOUNTS} mounts`,
  bounds: `at most ${MOST_MOUNTS} like { source, readOnly }`,
})
const own = list(filePath, MOST_MOUNTS, {
  rule: 'must be a list of paths',
  excess: `must have at most ${MOST_MOUNTS} paths`,
  bounds: `at most ${MOST_MOUNTS} paths`,
})

export const openSandboxOptions = table<EngineOptions>()({
  where: { ...oneOf(['auto', 'here', 'container']), default: 'auto' },
  engine: { ...oneOf(['auto', 'docker', 'podman', 'container', 'vm']), default: 'auto' },
  runtime: runtimeName,
  kernel: filePath,
  emulate: { ...flag, default: false },
  spare: { ...flag, default: false },
  image: { ...imageName, default: 'node:22' },
  cwd: directory,
  mounts,
  own,
  env,
  user: { ...oneOf(['me', 'root']), default: 'me' },
  isolation,
  network: either(
    networkName,
    (value) => typeof value !== 'object' || value === null,
    // The table has any function, and its answers are checked.
    object(engineNetworkOptions, ['allow']) as Kind<EngineNetwork>,
    'the name of a network, or { allow }',
  ),
  cpus: processors,
  memory: memorySize,
  setup: setupCommand,
  fresh: { ...flag, default: false },
  grace: { ...milliseconds, default: 30_000 },
  pull: { ...oneOf(['missing', 'never']), default: 'missing' },
  onProgress: callback,
  signal: abortSignal,
})

/** A sandbox on this machine or in a container: the methods that both have, and those of a container. */
export interface EngineSandbox extends AnySandbox {
  /** The container: its engine, its name there, and its image. null on this machine and in a virtual machine. */
  readonly container: EngineContainer | null
  /** The virtual machine. null without one. */
  readonly vm: EngineVm | null
  /**
   * Lets programs of this machine connect to a server in the sandbox: listens on 127.0.0.1 and passes each connection on. On this
   * machine it is {@link Sandbox.forward}, and only programs of sessions are reached. In a container, it leads to the loopback
   * port of the container, so servers in a session with a network of its own cannot be reached.
   *
   * It ends with its `close` and with the sandbox. Rejects with {@link OptionError}, and the error of the system (EADDRINUSE) if
   * `local` is taken.
   */
  forward(port: number, options?: ForwardOptions): Promise<Forwarding>
  /**
   * Ends this sandbox like `destroy`, which leaves the container to its grace, and then stops the container, also for other
   * clients. Its files stay. Rejects with CONTAINER_FAILED.
   */
  stop(): Promise<void>
}

/** The container of an {@link EngineSandbox}. */
export interface EngineContainer {
  engine: 'docker' | 'podman' | 'container'
  name: string
  image: string
}

/** The virtual machine of an {@link EngineSandbox}. */
export interface EngineVm {
  /** The process on this machine with whose end everything in it ends. */
  pid: number
  /** Whether QEMU emulates the processor. */
  emulated: boolean
  /**
   * Stops its processors; memory and connections stay. Resolves when they stand still. Meanwhile, calls reject with
   * CONNECTION_FAILED, except `resume`, `destroy` and `stop`. A pause may count for timeouts of what runs in it.
   */
  pause(): Promise<void>
  /** Lets it go on after `pause`, with pending calls. Its clock gets the time of this machine. */
  resume(): Promise<void>
}

/**
 * Opens a sandbox: on Linux like `new Sandbox()`, elsewhere in a Linux container of Docker, Podman or Apple's container.
 *
 * All clients of a project with the same options share one container, with sessions and processes of their own. It starts when
 * it is needed, and stops `grace` ms after its last process. If this process ends, in whatever way, its commands and processes
 * end too. If the container or the engine's program ends, calls reject with SANDBOX_LOST; a new call of `openSandbox` then
 * starts the container again.
 *
 * With the engine 'vm', each call starts a virtual machine, which ends with the sandbox and with this process. `image`, `own`,
 * `setup`, `fresh`, `grace`, `pull` and `runtime` are refused. Rejects with VM_UNAVAILABLE if there cannot be one.
 *
 * Rejects with ENGINE_NOT_FOUND, IMAGE_UNAVAILABLE, IMAGE_WITHOUT_BASH, MOUNT_MISSING, RUNTIME_UNSUPPORTED, CONTAINER_FAILED,
 * PROJECT_TOO_WIDE, CWD_NOT_FOUND, CONNECTION_FAILED, and with AbortError by `signal`.
 */
export declare function openSandbox(options?: EngineOptions): Promise<EngineSandbox>

/** Options of {@link connectProgram}. */
export interface ConnectProgramOptions {
  /** Directory on this machine in which the program runs. Default: `process.cwd()`. */
  cwd?: string | URL
  /**
   * Variables of the program, merged over those of this process; undefined removes a variable. Whether the program passes
   * them on is its own matter. Default: none.
   */
  env?: EnvChanges
  /** Milliseconds in which the server must answer, 0 to 2147483647; 0 = no limit. Default: 30000. */
  connectTimeout?: number
  /**
   * Milliseconds in which the server must begin to respond to a request that neither streams nor waits, 0 to 2147483647;
   * 0 = no limit. See the option of `SandboxClient`. Default: 30000.
   */
  requestTimeout?: number
  /** Ends the program and rejects the call, until the server has answered. Default: none. */
  signal?: AbortSignal
  /** Receives what the program prints on standard error, as long as it runs. Default: none. */
  onStderr?: (data: string) => void
  /** Receives callback errors that cannot be reported otherwise. Default: none. */
  logger?: Logger
}

export const connectProgramOptions = table<ConnectProgramOptions>()({
  cwd: directory,
  env,
  connectTimeout: { ...milliseconds, default: 30_000 },
  requestTimeout: { ...milliseconds, default: 30_000 },
  signal: abortSignal,
  onStderr: callback,
  logger,
})

/**
 * A sandbox that lives as long as its program. When this process, the program or the server ends, in whatever way, the
 * server ends with all commands, processes and sessions. Durable jobs continue.
 *
 * If the program ends early, pending and later calls reject with SANDBOX_LOST. The message has the end of the program and
 * the last of what it printed on standard error. The program does not keep this process alive between two calls.
 */
export interface ProgramClient extends SandboxClient {
  /**
   * Ends the requests like that of `SandboxClient`, and the connection, without which the server and everything in it ends.
   * Resolves when the program has ended; it is killed after 5 s.
   */
  close(): Promise<void>
  /** Kills the processes and deletes the sessions of the sandbox like that of `SandboxClient`, then closes. */
  destroy(): Promise<void>
}

/**
 * Starts a program that runs `nacre serve --stdio`, and connects to that server over its standard input and output.
 *
 * `argv` is the program and its arguments; no shell parses them. What the program prints on standard output before the
 * server answers, like the banner of a login, is skipped, up to 64 KiB. The program has no terminal, so it cannot ask for a
 * password, and Ctrl-C does not reach it.
 *
 * Rejects with SPAWN_FAILED if the program cannot be started, and with CONNECTION_FAILED if it ends, does not answer in
 * time or prints too much before the server answers. The message has the last of what it printed. Then the program has
 * ended. Rejects with OptionError for bad arguments.
 */
export declare function connectProgram(
  argv: readonly string[],
  options?: ConnectProgramOptions,
): Promise<ProgramClient>
