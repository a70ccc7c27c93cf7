/**
 * The rules of `isolation`: presets and defaults.
 *
 * Paths stay unresolved: the machine that runs the commands resolves them.
 */

import type { Callback } from './kind.js'

export const PRESETS = ['workspace', 'workspace+network', 'read-only'] as const
export type Preset = (typeof PRESETS)[number]

export interface CheckedFilesystem {
  read: 'all' | string[]
  write: string[]
  hide: string[]
  protect: string[]
  mounts: CheckedMount[]
}

export interface CheckedMount {
  source: string
  target: string
}

export interface CheckedNetwork {
  allow: string[]
  deny?: string[]
  /** A function answers. */
  ask?: boolean | Callback
  askTimeout?: number
  programs?: Record<string, CheckedProgram>
  secrets?: Record<string, CheckedSecret>
  /** By hosts with ports. */
  requests?: Record<string, string[]>
  handle?: Record<string, Callback>
  authorities?: string[]
  log?: string
}

export interface CheckedProgram {
  allow: string[]
  files?: string[]
}

export type CheckedPlace = 'authorization' | 'body' | 'aws-signature' | { header: string } | { query: string }

/** `hosts` have ports. */
export interface CheckedSecret {
  value: string | Callback
  hosts: string[]
  refresh?: number
  in?: CheckedPlace[]
  placeholder?: string
  programs?: string[]
}

export interface CheckedIsolation {
  filesystem: CheckedFilesystem
  network: 'host' | 'none' | CheckedNetwork
  processes: 'host' | 'own'
  bestEffort: boolean
  explain: boolean
  learn: boolean
}

/** Rules as given: missing ones are those of the preset, of the sandbox or the defaults. */
export type GivenRules = { preset?: Preset; filesystem?: Partial<CheckedFilesystem> } & Partial<
  Omit<CheckedIsolation, 'filesystem'>
>

/** The functions of rules, with the options that have them. */
export function functionsOf({ network }: GivenRules): [option: string, Callback][] {
  if (typeof network !== 'object') return []
  const { ask, handle = {}, secrets = {} } = network
  const all = new Map<string, unknown>([['isolation.network.ask', ask]])
  for (const [host, one] of Object.entries(handle)) all.set(`isolation.network.handle['${host}']`, one)
  for (const [name, { value }] of Object.entries(secrets))
    all.set(`isolation.network.secrets.${name}.value`, value)
  return [...all].filter((entry): entry is [string, Callback] => typeof entry[1] === 'function')
}

/** Rules completed with those of their preset, or else with the defaults. */
export function completeRules({ preset, filesystem, ...rules }: GivenRules): CheckedIsolation {
  const base = preset === undefined ? defaultRules() : presetRules(preset)
  return { ...base, ...rules, filesystem: { ...base.filesystem, ...filesystem } }
}

function defaultRules(): CheckedIsolation {
  return {
    filesystem: { read: 'all', write: ['.'], hide: [...SECRETS], protect: [], mounts: [] },
    network: 'host',
    processes: 'host',
    bestEffort: false,
    explain: false,
    learn: false,
  }
}

/** The rules of a preset. */
export function presetRules(preset: Preset): CheckedIsolation {
  const rules = defaultRules()
  return {
    ...rules,
    filesystem: { ...rules.filesystem, write: preset === 'read-only' ? [] : ['.'] },
    network: preset === 'workspace+network' ? 'host' : 'none',
    processes: 'own',
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
