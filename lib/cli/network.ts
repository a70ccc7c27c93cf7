/** The options for isolation, and for the network of isolated commands. */
import { statSync } from 'node:fs'
import path from 'node:path'
import { type Command, InvalidArgumentError } from 'commander'
import { invalidOption } from '../base/errors.js'
import { smallText } from '../base/small-file.js'
import type { EngineNetwork } from '../calls/engine.js'
import type { FilesystemRules, Isolation, NetworkRules, Secret } from '../calls/index.js'
import { type Preset, SECRETS } from '../schema/isolation-rules.js'
import { contentOf, several, shownName, takeVariable } from './values.js'

export interface NetworkFlags {
  isolationFile?: string
  allow?: string[]
  secret?: string[]
  secretFile?: string[]
  request?: [host: string, rule: string][]
  authority?: string[]
  ask?: true
  /** With a virtual machine, --allow is for that: see {@link machineNetworkOf}. */
  vm?: true
}

interface GivenSecret {
  name: string
  hosts: string[]
  /** Its value is in this file; otherwise in the variable of its name. */
  file?: string
}

/** What rules say of the network, and of the files with secrets. */
interface NetworkPlan {
  network?: NetworkRules
  filesystem?: Pick<FilesystemRules, 'hide'>
}

export function addNetworkOptions(command: Command): Command {
  return command
    .option(
      '--isolation-file <file>',
      'a file with rules as JSON; --isolation replaces its preset, and the options below add to it',
    )
    .option(
      '--allow <host:port>',
      'a host that isolated commands, or a virtual machine, may reach, alone; can be repeated',
      several,
    )
    .option(
      '--secret <name=hosts>',
      'isolated commands use this variable at its hosts, with commas between them, and never see it; can be repeated',
      several,
    )
    .option('--secret-file <name=file,hosts>', 'the same, with the value of a file; can be repeated', several)
    .option(
      '--request <host: rule>',
      "the requests that a host may get, like 'api.github.com: GET /repos/**'; can be repeated",
      request,
    )
    .option(
      '--authority <file>',
      'certificates of an authority that hosts of --secret and --request have; can be repeated',
      several,
    )
}

/**
 * Takes the values of secrets out of the environment, so that no program inherits them. `hidden`: more files that commands may not
 * see, by their flags. Throws OptionError.
 */
export function networkOf(
  {
    isolationFile,
    allow = [],
    secret = [],
    secretFile = [],
    request = [],
    authority = [],
    ask,
    vm,
  }: NetworkFlags,
  isolation: string | undefined,
  hidden: Record<string, string | undefined> = {},
): NetworkPlan {
  const given = [...secret.map(variableOf), ...secretFile.map(fileOf)]
  const allowed = vm ? [] : allow
  if (isolation === 'none' && isolationFile !== undefined)
    throw invalidOption('--isolation none and --isolation-file exclude each other: leave one out')
  const isIsolated = (isolation ?? 'none') !== 'none' || isolationFile !== undefined
  const isRestricted = ask || allowed.length + given.length + request.length + authority.length > 0
  if (isRestricted && !isIsolated)
    throw invalidOption(
      '--allow, --ask, --secret, --secret-file, --request and --authority need isolation, without which commands may ' +
        'connect to any host: add --isolation workspace',
    )
  const asking = request.find(([, rule]) => rule.startsWith('ask '))?.[1]
  if (asking !== undefined && !ask)
    throw invalidOption(
      `--request: the rule '${asking}' needs --ask, which nacre serve and nacre mcp have: add that, or write another rule`,
    )
  const secrets: Record<string, Secret> = Object.create(null)
  for (const { name, hosts, file } of given) {
    if (name in secrets)
      throw invalidOption(`--secret and --secret-file have a name twice: give${shownName(name)} one value`)
    const value =
      file === undefined
        ? takeVariable('--secret', name, 'set it, or use --secret-file')
        : smallText(file, `--secret-file${shownName(name)}`).trim()
    secrets[name] = { value, hosts }
  }
  const requests: Record<string, string[]> = Object.create(null)
  for (const [host, rule] of request) requests[host] = [...(requests[host] ?? []), rule]
  const authorities = authority.map((file) => contentOf('--authority', file))
  const files = [
    ...Object.entries(hidden),
    ...given.map(({ file }): [string, string | undefined] => ['--secret-file', file]),
  ]
  const hide = files.flatMap(([flag, file]) =>
    file === undefined || !isIsolated ? [] : [hideable(flag, path.resolve(file))],
  )
  return {
    ...(isRestricted && { network: { allow: allowed, ...(ask && { ask }), secrets, requests, authorities } }),
    // They are added to those of a file.
    ...(hide.length > 0 && {
      filesystem: { hide: isolationFile === undefined ? [...SECRETS, ...hide] : hide },
    }),
  }
}

/** Refuses a file with hard links: rules hide one path. */
function hideable(flag: string, file: string): string {
  const found = statSync(file, { throwIfNoEntry: false })
  if (!found?.isFile() || found.nlink === 1) return file
  throw invalidOption(
    `${flag} ${file} has hard links, by which commands could read it: copy it to a file of its own`,
  )
}

/** The network of a virtual machine, whose sessions have no other. Throws OptionError for what it cannot have. */
export function machineNetworkOf({ allow, ...others }: NetworkFlags): EngineNetwork | undefined {
  const { ask, secret, secretFile, request, authority } = others
  if ([ask, secret, secretFile, request, authority].some((given) => given !== undefined))
    throw invalidOption(
      '--ask, --secret, --secret-file, --request and --authority are not possible with --vm: leave them out',
    )
  return allow && { allow }
}

export interface IsolationFlags extends NetworkFlags {
  isolation?: Preset | 'none'
}

/**
 * The options of a sandbox for `--isolation`, `--isolation-file` and the others. `hidden`: as for {@link networkOf}. Throws
 * OptionError.
 */
export function isolationOf(
  flags: IsolationFlags,
  hidden?: Record<string, string | undefined>,
): { isolation?: Isolation; isolationFile?: string } {
  const { isolation: given, isolationFile } = flags
  const plan = networkOf(flags, given, hidden)
  const preset = given === 'none' ? undefined : given
  const hasMore = Object.keys(plan).length > 0
  const isolation = hasMore ? { ...(preset && { preset }), ...plan } : preset
  return {
    ...(isolation && { isolation }),
    ...(isolationFile !== undefined && { isolationFile: path.resolve(isolationFile) }),
  }
}

/** Whatever was given in the wrong place may be a value: no message shows it, as commander's do. */
function variableOf(text: string): GivenSecret {
  const [, name, hosts] = /^(\w+)=(.+)$/.exec(text) ?? []
  if (name !== undefined && hosts !== undefined) return { name, hosts: hosts.split(',') }
  throw invalidOption('--secret must be NAME=HOST, with more hosts behind commas; the variable has the value')
}

function fileOf(text: string): GivenSecret {
  const [, name, file, hosts] = /^(\w+)=([^,]+),(.+)$/.exec(text) ?? []
  if (name !== undefined && file !== undefined && hosts !== undefined)
    return { name, file, hosts: hosts.split(',') }
  throw invalidOption('--secret-file must be NAME=FILE,HOST, with more hosts behind commas')
}

function request(text: string, others: [string, string][] = []): [string, string][] {
  const [, host, rule] = /^(\S+): +(.+)$/.exec(text) ?? []
  if (host === undefined || rule === undefined)
    throw new InvalidArgumentError("It must be a host and a rule, like 'api.github.com: GET /repos/**'.")
  return [...others, [host, rule]]
}
