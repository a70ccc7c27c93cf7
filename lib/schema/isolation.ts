/** The kind of `isolation`, with the tables of its groups. */
import { OptionError } from '../base/errors.js'
import type { FilesystemRules, Isolation, IsolationRules } from '../calls/index.js'
import { either, list, mapped, object, oneOf, quoted, text } from './constructors.js'
import { type GivenRules, PRESETS } from './isolation-rules.js'
import { type Kind, table } from './kind.js'
import { flag } from './values.js'

/** Keeps all paths, with links and homes resolved, below the supervisor's limit of 16 MiB. */
const MAX_ITEMS = 200
/** PATH_MAX of Linux. */
const MAX_PATH_LENGTH = 4095

const path = mapped(
  text((path) => path !== '' && !path.includes('\0'), 'must be a path'),
  (path, name) => {
    if (path.length <= MAX_PATH_LENGTH) return path
    throw new OptionError('INVALID_OPTION', `${name} must be at most ${MAX_PATH_LENGTH} characters long`)
  },
)

const paths = list(path, MAX_ITEMS, {
  rule: 'must be a list of paths',
  excess: `must have at most ${MAX_ITEMS} paths`,
  bounds: `at most ${MAX_ITEMS} paths`,
})

const readable = either(
  oneOf(['all']),
  (value) => value === 'all',
  paths,
  `'all', or at most ${MAX_ITEMS} paths`,
)

/** Of `isolation.filesystem`. */
export const filesystemOptions = table<FilesystemRules>()({
  read: { ...readable, default: 'all' },
  write: paths,
  hide: paths,
  protect: paths,
})

/** A host name, `*.` and a domain, an IPv4 address or a bracketed IPv6 address; a colon; a port or `*`. */
const TARGET = /^(?:(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\]):(\d{1,5}|\*)$/i

function isTarget(text: string): boolean {
  const port = text.length <= 300 ? TARGET.exec(text)?.[1] : undefined
  return port === '*' || (Number(port) >= 1 && Number(port) <= 65_535)
}

const target = mapped(
  text(isTarget, "must be a host and a port like 'example.com:443' or '*.example.com:443'"),
  (text) => text.toLowerCase(),
)

const targets = list(target, MAX_ITEMS, {
  rule: `must be a list of at most ${MAX_ITEMS} hosts`,
  bounds: `at most ${MAX_ITEMS} like 'example.com:443' or '*.example.com:443'`,
})

/** Of `isolation.network`. */
export const networkOptions = table<Extract<IsolationRules['network'], object>>()({ allow: targets })

const network = either(
  oneOf(['host', 'none'], "must be 'host', 'none' or { allow }"),
  (value) => typeof value !== 'object' || value === null || Array.isArray(value),
  object(networkOptions, ['allow']),
  "'host', 'none' or { allow }",
)

/** Of `isolation`. */
export const isolationOptions = table<IsolationRules>()({
  preset: oneOf(PRESETS, `must be one of ${quoted(PRESETS)}`),
  filesystem: object(filesystemOptions, [], 'an object of lists'),
  network: { ...network, default: 'host' },
  processes: { ...oneOf(['host', 'own']), default: 'host' },
  bestEffort: { ...flag, default: false },
})

const rules: Kind<Isolation, GivenRules> = either(
  mapped(oneOf(PRESETS, `must be rules or one of ${quoted(PRESETS)}`), (preset) => ({ preset })),
  (value) => typeof value === 'string',
  object(isolationOptions),
  `${quoted(PRESETS)} or rules`,
)

/** Rules or a preset. They stay incomplete, since a session inherits what is missing. */
export const isolation: Kind<Isolation, GivenRules> = {
  ...rules,
  read(value, name) {
    if (typeof value !== 'boolean') return rules.read(value, name)
    const remedy = value
      ? `choose one of ${quoted(PRESETS)}, or give rules`
      : 'leave it out for no restrictions'
    throw new OptionError(
      'INVALID_OPTION',
      `${name} must be rules or the name of a preset, not ${value}: ${remedy}`,
    )
  },
}
