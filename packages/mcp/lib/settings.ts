/** The options of the command line, checked. */
import { randomBytes } from 'node:crypto'
import { realpathSync } from 'node:fs'
import path from 'node:path'
import type { RecordOptions } from '@nacre/console'
import type { ToolName, ToolOptions } from '@nacre/tools'
import type { IsolationRules, SandboxOptions } from 'nacre'
import type { EngineOptions } from 'nacre/engine'
import { absolute, kinds, redaction, withFile } from 'nacre/internal'
import { network as networks, OptionError, printing, flags as values } from 'nacre/internal/cli'

/** What commander has read. */
export interface Flags extends networks.NetworkFlags {
  port?: number
  host?: string
  tokenFile?: string
  allowOrigin?: string[]
  cwd?: string
  isolation?: kinds.Preset | 'none'
  write?: string[]
  container?: 'auto' | 'docker' | 'podman' | 'container'
  vm?: true
  kernel?: string
  emulate?: true
  image?: string
  runtime?: string
  mount?: string[]
  own?: string[]
  root?: true
  setup?: string
  copyOnWrite?: true
  keep?: string
  stateDir?: string
  allowCommit?: true
  env?: string[]
  redactFile?: string
  record?: string
  recordLimit?: number
  /** True without a port. */
  console?: number | true
  timeout?: number
  yieldAfter?: number
  maxWait?: number
  maxTokens?: number
  tools?: string[]
  maxSessions?: number
  maxRuns?: number
  idle?: number
}

export interface HttpSettings {
  host: string
  port: number
  token: string
  /** Whether nothing but the server's own message has the token. */
  isNewToken: boolean
  origins: readonly string[]
  /** Milliseconds. */
  idle: number
}

export interface Settings {
  /** The page that shows what runs, if there is one. */
  console: { port: number; token: string } | undefined
  /** Undefined unless it records. */
  recording: RecordOptions | undefined
  sandbox: SandboxOptions & { cwd: string }
  /** The rules, unless there is no isolation. They are added to those of a file. */
  isolation: IsolationRules | undefined
  /** Both together. */
  rules: IsolationRules | undefined
  tools: ToolOptions
  http: HttpSettings | undefined
  /** Where commands run, unless it is this machine. */
  container: EngineOptions | undefined
  /** The name of the copy-on-write workspace. */
  workspaceId: string | undefined
}

const EIGHT = ['bash', 'wait', 'write', 'output', 'kill', 'service', 'sessions', 'jobs'] as const
const HOUR = 3_600_000
const LEAST_IDLE = 60_000

/** Throws OptionError. */
export function readSettings(flags: Flags): Settings {
  const {
    isolation: preset,
    write = [],
    ask,
    env = [],
    copyOnWrite,
    keep,
    stateDir,
    allowCommit,
    tokenFile,
    redactFile,
  } = flags
  const {
    timeout,
    yieldAfter,
    maxWait,
    maxTokens,
    maxSessions,
    maxRuns,
    record,
    recordLimit,
    console: page,
  } = flags
  const http = httpOf(flags)
  if (!copyOnWrite && allowCommit) refuse('--allow-commit needs --copy-on-write')
  if (copyOnWrite && http !== undefined)
    refuse(
      '--copy-on-write is for one client: leave out --port, as clients over HTTP would undo the work of each other',
    )
  if (keep !== undefined && http !== undefined)
    refuse('--keep is for one client: leave out --port, as clients over HTTP have sessions of their own')
  if (stateDir !== undefined && keep === undefined) refuse('--state-dir needs --keep')
  const { isolationFile } = flags
  if (preset === 'none' && write.length > 0)
    refuse('--write needs isolation: with --isolation none, commands may write everywhere')
  if (ask && page === undefined) refuse('--ask needs --console: its page shows the questions')
  if (record === undefined && recordLimit !== undefined) refuse('--record-limit needs --record')
  for (const name of env) if (!/^[A-Za-z_]\w*$/.test(name)) refuse('--env must have names of variables')
  const tools = toolsOf(flags, http !== undefined)
  const container = containerOf(flags)
  // A container has what links lead to, and not the links.
  const locate = (file: string) =>
    container === undefined ? absolute(file) : realpathSync(path.resolve(file))
  const cwd = locate(flags.cwd ?? '.')
  // Some clients start their servers there.
  if (cwd === '/' && preset?.startsWith('workspace'))
    refuse('in the directory /, commands could write everywhere: give --cwd the directory of a project')
  // What does not exist cannot be hidden.
  const directory = record && values.ownDirectory('--record', record)
  const ofMachine = flags.vm && networks.machineNetworkOf(flags)
  const { network, filesystem: { hide } = {} } = networks.networkOf(flags, preset, {
    '--token-file': tokenFile && locate(tokenFile),
    '--redact-file': redactFile && locate(redactFile),
    '--record': directory && locate(directory),
  })
  const others = write.map(locate)
  // What is added to a list of a file is added to its default.
  const base = preset === 'read-only' || isolationFile !== undefined ? [] : [cwd]
  const isolation: IsolationRules | undefined =
    preset === 'none'
      ? undefined
      : {
          ...(preset && { preset }),
          ...(ofMachine ? { network: 'host' as const } : network && { network }),
          filesystem: { write: [...base, ...others], ...(hide && { hide }) },
        }
  const file = isolationFile === undefined ? undefined : path.resolve(isolationFile)
  const dropped = redaction.secretNames(process.env).filter((name) => !env.includes(name))
  const passed = Object.fromEntries(env.map((name) => [name, process.env[name]]))
  // That of the clients may be in a file, and is shown nowhere.
  const token = randomBytes(24).toString('base64url')
  const secrets = [
    ...redaction.secretValues(process.env),
    ...values.secretsIn(redactFile),
    ...(http ? [http.token] : []),
    token,
  ]
  if (typeof page === 'number' && page > 65_535) refuse('--console must be a port from 0 to 65535')
  const workspaceId = copyOnWrite ? (keep ?? `mcp-${randomBytes(4).toString('hex')}`) : undefined
  return {
    sandbox: {
      cwd,
      env: Object.fromEntries(dropped.map((name) => [name, undefined])),
      ...{ keep, stateDir, isolationFile: file },
      ...(workspaceId === undefined
        ? {}
        : { workspace: { mode: 'copy-on-write' as const, id: workspaceId, undoSteps: 20 } }),
      logger: printing.stderrLogger,
    },
    isolation,
    rules: file === undefined ? isolation : (withFile(file, isolation as never) as IsolationRules),
    tools: {
      tools: workspaceId === undefined ? tools : [...tools, 'workspace'],
      allowCommit: allowCommit ?? false,
      ...(isolation === undefined ? {} : { writeHint: 'the option --write of the server allows more' }),
      ...(ask && { askHint: 'the user can allow it in the console of nacre' }),
      requireSession: http !== undefined,
      keepSessions: keep !== undefined,
      redact: [...secrets, ...redaction.KNOWN_SECRETS],
      timeout,
      yieldAfter,
      maxWait,
      maxTokens,
      maxSessions,
      maxRuns,
    },
    http,
    console: page === undefined ? undefined : { port: page === true ? 0 : page, token },
    recording:
      directory === undefined
        ? undefined
        : { directory, limit: recordLimit, redact: secrets, logger: printing.stderrLogger },
    container: container && {
      ...container,
      ...(ofMachine && { network: ofMachine }),
      cwd,
      env: passed,
      mounts: [...others.map((source) => ({ source })), ...(container.mounts ?? [])],
      ...(isolation && { isolation }),
    },
    workspaceId,
  }
}

/** What the options say of the container. Undefined without one. */
function containerOf(flags: Flags): EngineOptions | undefined {
  const {
    container,
    image,
    runtime,
    mount = [],
    own = [],
    root,
    setup,
    copyOnWrite,
    vm,
    kernel,
    emulate,
  } = flags
  const ofContainers = [image, runtime, root, setup, flags.own]
  if (vm && [container, ...ofContainers].some((value) => value !== undefined))
    refuse('--container, --image, --runtime, --own, --root and --setup are not possible with --vm')
  if (!vm && (kernel !== undefined || emulate))
    refuse('--kernel and --emulate are for a virtual machine: add --vm')
  if (container === undefined && !vm && process.platform === 'linux') {
    if ([flags.mount, ...ofContainers].some((value) => value !== undefined))
      refuse('--image, --runtime, --mount, --own, --root and --setup are for a container: add --container')
    return undefined
  }
  if (copyOnWrite) refuse('--copy-on-write is not for containers: leave it out')
  if (flags.isolationFile !== undefined) refuse('--isolation-file is not for containers: leave it out')
  if (flags.keep !== undefined) refuse('--keep is not for containers: leave it out')
  const mounts = mount.map((source) => ({ source: path.resolve(source), readOnly: true }))
  if (vm)
    return {
      where: 'container',
      engine: 'vm',
      mounts,
      ...(kernel && { kernel: path.resolve(kernel) }),
      ...(emulate && { emulate }),
    }
  return {
    where: 'container',
    engine: container ?? 'auto',
    ...(image === undefined ? {} : { image }),
    ...(runtime === undefined ? {} : { runtime }),
    ...(setup === undefined ? {} : { setup }),
    mounts,
    own,
    user: root ? 'root' : 'me',
  }
}

function httpOf(flags: Flags): HttpSettings | undefined {
  const { port, host = '127.0.0.1', tokenFile, allowOrigin = [], idle = 4 * HOUR } = flags
  if (port === undefined) {
    const given = [flags.host, tokenFile, flags.allowOrigin, flags.idle]
    if (given.some((value) => value !== undefined))
      refuse('--host, --token-file, --allow-origin and --idle are for HTTP: add --port')
    return undefined
  }
  if (port > 65_535) refuse('--port must be 0 to 65535')
  if (idle < LEAST_IDLE || idle > kinds.MAX_MILLISECONDS) refuse('--idle must be 1m to 24d')
  const token =
    tokenFile === undefined
      ? randomBytes(24).toString('base64url')
      : kinds.serverToken.read(
          values.contentOf('--token-file', tokenFile).trim(),
          'the token in --token-file',
        )
  return {
    host: kinds.hostName.read(host, '--host'),
    port,
    token,
    isNewToken: tokenFile === undefined,
    origins: kinds.origins.read(allowOrigin, '--allow-origin'),
    idle,
  }
}

function toolsOf({ tools = [...EIGHT] }: Flags, isShared: boolean): ToolName[] {
  const known = tools.filter((name) => (EIGHT as readonly string[]).includes(name)) as ToolName[]
  if (known.length < tools.length || known.length === 0) {
    const wrong = tools.find((name) => !known.includes(name as ToolName))
    refuse(
      `--tools must be a list of ${EIGHT.join(', ')}${wrong === undefined ? '' : `, not ${kinds.describe(wrong)}`}`,
    )
  }
  if (isShared && !known.includes('sessions'))
    refuse('--tools must have sessions over HTTP, where calls need a session')
  return known
}

function refuse(message: string): never {
  throw new OptionError('INVALID_OPTION', message)
}
