/**
 * Isolation rules for this machine: absolute paths without links.
 *
 * Links are resolved when the sandbox or session is created, before its commands run. Later, a program could replace a part
 * of a path with its own link, and the rule would allow the link's target.
 */
import { fs, path } from '../../../base/builtin.js'
import { invalidOption } from '../../../base/errors.js'
import { below } from '../../../base/working-directory.js'
import type { NativeIsolation, NativeSecret } from '../../../boundary/index.js'
import {
  type CheckedIsolation,
  type CheckedNetwork,
  completeRules,
  type GivenRules,
} from '../../../schema/isolation-rules.js'
import { quote } from '../../../schema/read.js'
import { nameOf } from '../rule-functions.js'
import { planMounts } from './mounts.js'
import { isWithin, linkTarget, realOf } from './places.js'
import { planLog } from './request-log.js'
import { planAuthorities, planRequests, planSecrets } from './secrets.js'
import { isAllowed } from './strictness.js'

const NETWORKS = { host: 'open', none: 'closed', proxy: 'proxy' } as const

type Guarding = NativeIsolation['guarding']

/**
 * Whether rules protect what programs of the machine run later: those of a preset do, unless `protect` is an empty list. Git may
 * write to the repository of cwd if the rules do not say themselves what programs may write.
 */
function guardingOf({ preset, filesystem = {} }: GivenRules): Guarding {
  const { write, protect } = filesystem
  if (preset === undefined || protect?.length === 0) return 'off'
  if (write !== undefined) return 'project'
  return preset === 'read-only' ? 'off' : 'repository'
}

/** What the preset of rules decides beyond the rules themselves. */
type OfPreset = Pick<NativeIsolation, 'guarding' | 'privateCaches'>

export function ofPreset(given: GivenRules): OfPreset {
  return { guarding: guardingOf(given), privateCaches: given.preset !== undefined }
}

/**
 * Resolves the rules. `cwd` is absolute; `~` means the first of `homes`, except in `hide`, where it means all of them. `known`:
 * the secrets of the sandbox, for a session.
 */
export function planIsolation(
  rules: CheckedIsolation,
  cwd: string,
  homes: string[],
  preset: OfPreset = { guarding: 'off', privateCaches: false },
  known: readonly NativeSecret[] = [],
): NativeIsolation {
  const from = (home: string) => (file: string) => {
    const expanded = fromHome(file, home)
    return withoutDots(path.isAbsolute(expanded) ? expanded : below(cwd, expanded))
  }
  const absolute = from(homes[0] ?? '/')
  const { read, write, hide, protect, mounts } = rules.filesystem
  const network = typeof rules.network === 'string' ? rules.network : 'proxy'
  const given: Partial<CheckedNetwork> = typeof rules.network === 'string' ? {} : rules.network
  const { allow = [], deny = [], ask = false, askTimeout = 60_000 } = given
  const secrets = planSecrets(given.secrets, known)
  const handlers = Object.entries(given.handle ?? {}).map(([host, one]) => ({ host, function: nameOf(one) }))
  const requests = planRequests(given.requests)
  const programs = Object.entries(given.programs ?? {}).map(([name, { allow, files = [] }]) => {
    const own = secrets.filter((secret) => secret.programs.includes(name))
    return { name, allow: [...new Set([...allow, ...own.flatMap(({ hosts }) => hosts)])], files }
  })
  const reserved = programs.flatMap((program) => program.allow)
  const named = [
    ...secrets.filter((secret) => secret.programs.length === 0).flatMap(({ hosts }) => hosts),
    ...[...requests, ...handlers].map(({ host }) => host),
  ]
  const writable = write.map((file, index) =>
    existing(absolute(file), cwd, `isolation.filesystem.write[${index}]`),
  )
  const planned = planMounts(mounts, writable)
  return {
    read: read === 'all' ? undefined : read.map(absolute).map(followed),
    write: writable,
    hide: [...new Set(hide.flatMap((file) => homes.map((home) => destination(from(home)(file)))))],
    protect: protect
      .map(absolute)
      .map((file, index) =>
        protectable(file, write.map(absolute), rules.bestEffort, `isolation.filesystem.protect[${index}]`),
      ),
    mounts: planned,
    network: NETWORKS[network],
    // What names a host of a program does not open it to all others.
    allow: [...new Set([...allow, ...named.filter((host) => !isAllowed([host], reserved))])],
    deny,
    ask: ask === false ? undefined : askTimeout,
    answerer: typeof ask === 'function' ? nameOf(ask) : undefined,
    programs,
    secrets,
    requests,
    handlers,
    authorities: planAuthorities(given.authorities),
    log: given.log && planLog(absolute(given.log), [...writable, ...planned.map(({ source }) => source)]),
    ownProcesses: rules.processes === 'own',
    bestEffort: rules.bestEffort,
    explain: rules.explain,
    learn: rules.learn,
    ...preset,
  }
}

/**
 * Resolves the rules of a sandbox, or of a session in a sandbox that is not isolated. Some programs are started in the root
 * directory by those that start them: rules for cwd would allow every write. `file` has the rules: programs could loosen those
 * of the next sandbox.
 */
export function planOuterIsolation(
  given: GivenRules,
  cwd: string,
  homes: string[],
  file?: string,
): NativeIsolation {
  const rules = completeRules(given)
  const plan = planIsolation(rules, cwd, homes, ofPreset(given))
  if (file !== undefined) {
    plan.rulesFile = followed(file)
    plan.protect.push(plan.rulesFile)
  }
  // Only a path from the root says that the root is meant.
  const reaching = rules.filesystem.write.find(
    (file, index) => !path.isAbsolute(file) && plan.write[index] === '/',
  )
  if (reaching === undefined) return plan
  const place = reaching === '.' ? "the sandbox's cwd" : `${quote(reaching)} of the sandbox's cwd`
  throw invalidOption(
    `isolation lets programs write below ${place}, which is '/', and so everywhere: ` +
      'set cwd to the directory of a project, or isolation.filesystem.write',
  )
}

/** The path with `home` in the place of a leading `~`. */
export function fromHome(file: string, home: string): string {
  return file.replace(/^~(?=\/|$)/, () => home)
}

/** The path without `.` and `..`. As the kernel does it, `..` after a link leads to the parent of the link's target. */
function withoutDots(file: string): string {
  return file.split('/').reduce((parent, name) => {
    if (name === '' || name === '.') return parent
    return name === '..' ? path.dirname(followed(parent)) : path.join(parent, name)
  }, '/')
}

/** The path with links resolved; unchanged if it does not exist. */
function followed(file: string): string {
  return realOf(file) ?? file
}

/** The kernel's limit for links in one path. */
const MOST_LINKS = 40

/**
 * The path with links resolved, even if its target does not exist. Hiding a link hides its target: no mount can cover the
 * link itself.
 */
export function destination(file: string, links = 0): string {
  const parent = path.dirname(file)
  const entry = path.join(
    fs.existsSync(parent) ? followed(parent) : destination(parent, links),
    path.basename(file),
  )
  const target = linkTarget(entry)
  if (target === undefined || links === MOST_LINKS) return entry
  const from = path.isAbsolute(target) ? '' : path.dirname(entry)
  return destination(withoutDots(`${from}/${target}`), links + 1)
}

/** Accepts a missing path only for the sandbox's own directory, which the first call reports. */
function existing(file: string, cwd: string, name: string): string {
  if (file !== cwd && !fs.existsSync(file)) {
    throw invalidOption(`${name} must exist: create it. There is no '${file}'`)
  }
  return followed(file)
}

/** Refuses a missing path below a writable directory: any program could create it. */
function protectable(file: string, write: string[], bestEffort: boolean, name: string): string {
  if (!bestEffort && !fs.existsSync(file) && write.some((root) => isWithin(file, root))) {
    throw invalidOption(
      `${name} must exist below a writable directory: there is no '${file}'. Create it, or set bestEffort`,
    )
  }
  return followed(file)
}
