/** Readers for `isolation`. Paths stay unresolved: the machine that runs the commands resolves them. */

import { OptionError } from '../base/errors.js'
import { describe } from './read.js'

export const PRESETS = ['workspace', 'workspace+network', 'read-only'] as const
export type Preset = (typeof PRESETS)[number]

export interface CheckedFilesystem {
  read: 'all' | string[]
  write: string[]
  hide: string[]
  protect: string[]
}

export interface CheckedIsolation {
  filesystem: CheckedFilesystem
  network: 'host' | 'none' | { allow: string[] }
  processes: 'host' | 'own'
  bestEffort: boolean
}

/** Rules as given: missing ones are those of the preset, of the sandbox or the defaults. */
export type GivenRules = { preset?: Preset; filesystem?: Partial<CheckedFilesystem> } & Partial<
  Omit<CheckedIsolation, 'filesystem'>
>

/** Keeps all paths, with links and homes resolved, below the supervisor's limit of 16 MiB. */
const MAX_PATHS = 200
/** PATH_MAX of Linux. */
const MAX_PATH_LENGTH = 4095

const PATH_RULE = 'must be a list of paths'

/** A list of paths. */
export function paths(value: unknown, name: string): string[] {
  if (!Array.isArray(value)) {
    throw new OptionError('INVALID_OPTION', `${name} ${PATH_RULE}, not ${describe(value)}`)
  }
  if (value.length > MAX_PATHS) {
    throw new OptionError('INVALID_OPTION', `${name} must have at most ${MAX_PATHS} paths`)
  }
  return value.map((path, index) => onePath(path, `${name}[${index}]`))
}

function onePath(value: unknown, name: string): string {
  if (typeof value !== 'string' || value === '' || value.includes('\0')) {
    throw new OptionError('INVALID_OPTION', `${name} must be a path, not ${describe(value)}`)
  }
  if (value.length > MAX_PATH_LENGTH) {
    throw new OptionError('INVALID_OPTION', `${name} must be at most ${MAX_PATH_LENGTH} characters long`)
  }
  return value
}

/** 'all', or a list of paths. */
export function readable(value: unknown, name: string): 'all' | string[] {
  return value === 'all' ? 'all' : paths(value, name)
}

/** A host name, `*.` and a domain, an IPv4 address or a bracketed IPv6 address; a colon; a port or `*`. */
const TARGET = /^(?:(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\]):(?:\d{1,5}|\*)$/i

function target(value: unknown, name: string): string {
  if (typeof value === 'string' && value.length <= 300 && TARGET.test(value)) {
    const port = value.slice(value.lastIndexOf(':') + 1)
    if (port === '*' || (Number(port) >= 1 && Number(port) <= 65_535)) return value.toLowerCase()
  }
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be a host and a port like 'example.com:443' or '*.example.com:443', not ${describe(value)}`,
  )
}

/** A list of hosts with ports. */
export function targets(value: unknown, name: string): string[] {
  if (Array.isArray(value) && value.length <= MAX_PATHS) {
    return value.map((one, index) => target(one, `${name}[${index}]`))
  }
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be a list of at most ${MAX_PATHS} hosts, not ${describe(value)}`,
  )
}

/** 'host' or 'own'. */
export function processes(value: unknown, name: string): 'host' | 'own' {
  if (value === 'host' || value === 'own') return value
  throw new OptionError('INVALID_OPTION', `${name} must be 'host' or 'own', not ${describe(value)}`)
}

/** One of the presets. `others` names what else is possible. */
export function preset(value: unknown, name: string, others = ''): Preset {
  const known = PRESETS.find((preset) => preset === value)
  if (known !== undefined) return known
  const names = PRESETS.map((preset) => `'${preset}'`).join(', ')
  throw new OptionError('INVALID_OPTION', `${name} must be ${others}one of ${names}, not ${describe(value)}`)
}

/** Rules completed with those of their preset, or else with the defaults. */
export function completeRules({ preset, filesystem, ...rules }: GivenRules): CheckedIsolation {
  const base = preset === undefined ? defaultRules() : presetRules(preset)
  return { ...base, ...rules, filesystem: { ...base.filesystem, ...filesystem } }
}

function defaultRules(): CheckedIsolation {
  return {
    filesystem: { read: 'all', write: ['.'], hide: [...SECRETS], protect: [] },
    network: 'host',
    processes: 'host',
    bestEffort: false,
  }
}

/** The rules of a preset. */
export function presetRules(preset: Preset): CheckedIsolation {
  const { filesystem } = defaultRules()
  return {
    filesystem: { ...filesystem, write: preset === 'read-only' ? [] : ['.'] },
    network: preset === 'workspace+network' ? 'host' : 'none',
    processes: 'own',
    bestEffort: false,
  }
}

/** Well-known locations of secrets, hidden unless `hide` is given. docs/isolation.md lists them. */
export const SECRETS: readonly string[] = [
  '~/.ssh',
  '~/.gnupg',
  '~/.aws',
  '~/.azure',
  '~/.config/gcloud',
  '~/.kube',
  '~/.docker',
  '~/.netrc',
  '~/.npmrc',
  '~/.yarnrc.yml',
  '~/.pypirc',
  '~/.git-credentials',
  '~/.config/git/credentials',
  '~/.config/gh',
  '~/.config/hub',
  '~/.cargo/credentials',
  '~/.cargo/credentials.toml',
  '~/.gem/credentials',
  '~/.m2/settings.xml',
  '~/.gradle/gradle.properties',
  '~/.terraform.d',
  '~/.vault-token',
  '~/.pgpass',
  '~/.my.cnf',
  '~/.password-store',
  '~/.local/share/keyrings',
  '~/.mozilla',
  '~/.config/google-chrome',
  '~/.config/chromium',
  '~/.bash_history',
  '~/.zsh_history',
  '~/.node_repl_history',
  '~/.python_history',
  '/etc/shadow',
  '/etc/shadow-',
  '/etc/gshadow',
  '/etc/gshadow-',
  '/etc/sudoers',
  '/etc/sudoers.d',
  '/etc/ssl/private',
  '/run/secrets',
]
