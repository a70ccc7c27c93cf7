/** The options for the network of isolated commands. */
import path from 'node:path'
import { type Command, InvalidArgumentError } from 'commander'
import { invalidOption } from '../base/errors.js'
import type { FilesystemRules, Isolation, NetworkRules, Secret } from '../calls/index.js'
import { type Preset, SECRETS } from '../schema/isolation-rules.js'
import { contentOf, several, takeVariable } from './values.js'

export interface NetworkFlags {
  allow?: string[]
  secret?: GivenSecret[]
  secretFile?: GivenSecret[]
  request?: [host: string, rule: string][]
  authority?: string[]
  ask?: true
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
    .option('--allow <host:port>', 'a host that isolated commands may reach, alone; can be repeated', several)
    .option(
      '--secret <name=hosts>',
      'isolated commands use this variable at its hosts, with commas between them, and never see it; can be repeated',
      secret,
    )
    .option(
      '--secret-file <name=file,hosts>',
      'the same, with the value of a file; can be repeated',
      secretFile,
    )
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
 * see. Throws OptionError.
 */
export function networkOf(
  { allow = [], secret = [], secretFile = [], request = [], authority = [], ask }: NetworkFlags,
  isolation: string | undefined,
  hidden: string[] = [],
): NetworkPlan {
  const given = [...secret, ...secretFile]
  const files = [...hidden, ...secretFile.map(({ file = '' }) => path.resolve(file))]
  const isRestricted = ask || allow.length + given.length + request.length + authority.length > 0
  if (isRestricted && (isolation ?? 'none') === 'none')
    throw invalidOption(
      '--allow, --ask, --secret, --secret-file, --request and --authority need isolation, without which commands may ' +
        'connect to any host: add --isolation workspace',
    )
  const secrets: Record<string, Secret> = Object.create(null)
  for (const { name, hosts, file } of given) {
    if (name in secrets) throw invalidOption(`the secret ${name} must be given once`)
    const value =
      file === undefined
        ? takeVariable('--secret', name, 'set it, or use --secret-file')
        : String(contentOf('--secret-file', file)).trim()
    secrets[name] = { value, hosts }
  }
  const requests: Record<string, string[]> = Object.create(null)
  for (const [host, rule] of request) requests[host] = [...(requests[host] ?? []), rule]
  const authorities = authority.map((file) => String(contentOf('--authority', file)))
  return {
    ...(isRestricted && { network: { allow, ask: ask ?? false, secrets, requests, authorities } }),
    ...(files.length > 0 && { filesystem: { hide: [...SECRETS, ...files] } }),
  }
}

export interface IsolationFlags extends NetworkFlags {
  isolation?: Preset
}

/** The rules of `--isolation` and these options. Throws OptionError. */
export function isolationOf(flags: IsolationFlags): Isolation | undefined {
  const plan = networkOf(flags, flags.isolation)
  return plan.network === undefined ? flags.isolation : { preset: flags.isolation, ...plan }
}

function secret(text: string, others: GivenSecret[] = []): GivenSecret[] {
  const [, name, hosts] = /^(\w+)=(.+)$/.exec(text) ?? []
  if (name === undefined || hosts === undefined)
    throw new InvalidArgumentError('It must be NAME=HOST, with more hosts behind commas.')
  return [...others, { name, hosts: hosts.split(',') }]
}

function secretFile(text: string, others: GivenSecret[] = []): GivenSecret[] {
  const [, name, file, hosts] = /^(\w+)=([^,]+),(.+)$/.exec(text) ?? []
  if (name === undefined || file === undefined || hosts === undefined)
    throw new InvalidArgumentError('It must be NAME=FILE,HOST, with more hosts behind commas.')
  return [...others, { name, file, hosts: hosts.split(',') }]
}

function request(text: string, others: [string, string][] = []): [string, string][] {
  const [, host, rule] = /^(\S+): +(.+)$/.exec(text) ?? []
  if (host === undefined || rule === undefined)
    throw new InvalidArgumentError("It must be a host and a rule, like 'api.github.com: GET /repos/**'.")
  return [...others, [host, rule]]
}
