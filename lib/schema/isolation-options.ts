/** The rules of `isolation`. */

import { OptionError } from '../base/errors.js'
import {
  type CheckedIsolation,
  type GivenRules,
  PRESETS,
  paths,
  preset,
  processes,
  readable,
  targets,
} from './isolation.js'
import { flag, oneOf } from './kinds.js'
import { type JsonSchema, type Kind, option } from './option.js'
import { describe, readGroup } from './read.js'

const pathList: Kind<string[]> = {
  read: paths,
  json: { schema: { type: 'strings' } },
  bounds: 'at most 200 paths',
}

const readList: Kind<'all' | string[]> = {
  read: readable,
  json: {
    schema: {
      type: 'either',
      of: [{ type: 'enum', values: ['all'] }, { type: 'strings' }],
    },
  },
  bounds: "'all', or at most 200 paths",
}

/** Of `isolation.filesystem`. */
export const filesystemOptions = {
  read: option(readList, {
    doc: 'Paths that programs may read, with everything below them.',
    default: 'all',
  }),
  write: option(pathList, {
    doc: 'Paths that programs may write, with everything below them.',
    otherwise: "['.']",
  }),
  hide: option(pathList, {
    doc: 'Paths that appear empty or missing.',
    otherwise: 'well-known secrets',
  }),
  protect: option(pathList, { doc: 'Paths that are never writable.', otherwise: '[]' }),
}

const filesystem: Kind<Partial<CheckedIsolation['filesystem']>> = {
  read: (value, name) => readGroup(filesystemOptions, value, name),
  json: { schema: { type: 'object', table: filesystemOptions } },
  bounds: 'an object of lists',
}

const hostList: Kind<string[]> = {
  read: targets,
  json: { schema: { type: 'strings' } },
  bounds: "at most 200 like 'example.com:443' or '*.example.com:443'",
}

/** Of `isolation.network`. */
export const networkOptions = {
  allow: option(hostList, { doc: 'Hosts and ports that the proxy lets through.' }),
}

function readNetwork(value: unknown, name: string): CheckedIsolation['network'] {
  if (value === 'host' || value === 'none') return value
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new OptionError(
      'INVALID_OPTION',
      `${name} must be 'host', 'none' or { allow }, not ${describe(value)}`,
    )
  }
  const { allow } = readGroup(networkOptions, value, name)
  if (allow === undefined) throw new OptionError('INVALID_OPTION', `${name}.allow is required`)
  return { allow }
}

const network: Kind<CheckedIsolation['network']> = {
  read: readNetwork,
  json: {
    schema: {
      type: 'either',
      of: [
        { type: 'enum', values: ['host', 'none'] },
        { type: 'object', table: networkOptions },
      ],
    },
  },
  bounds: "'host', 'none' or { allow }",
}

/** Of `isolation`. */
export const isolationOptions = {
  preset: option(
    oneOf((value, name) => preset(value, name), ...PRESETS),
    {
      doc: 'Rules to start from. The other options replace single rules.',
      otherwise: 'none',
    },
  ),
  filesystem: option(filesystem, { doc: 'Files that programs may use.', otherwise: 'its defaults' }),
  network: option(network, { doc: 'Hosts that programs may reach.', default: 'host' }),
  processes: option(oneOf(processes, 'host', 'own'), {
    doc: 'Processes that programs can see and signal.',
    default: 'host',
  }),
  bestEffort: option(flag, { doc: 'Drops rules that this machine cannot enforce.', default: false }),
}

const schema: JsonSchema = {
  type: 'either',
  of: [
    { type: 'enum', values: PRESETS },
    { type: 'object', table: isolationOptions },
  ],
}

const PRESET_NAMES = PRESETS.map((name) => `'${name}'`).join(', ')

function readIsolation(value: unknown, name: string): GivenRules {
  if (typeof value === 'string') return { preset: preset(value, name, 'rules or ') }
  if (typeof value !== 'boolean') return readGroup(isolationOptions, value, name)
  const remedy = value ? `choose one of ${PRESET_NAMES}, or give rules` : 'leave it out for no restrictions'
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be rules or the name of a preset, not ${value}: ${remedy}`,
  )
}

/** Rules or a preset. They stay incomplete, since a session inherits what is missing. */
export const isolation: Kind<GivenRules> = {
  read: readIsolation,
  json: { schema },
  bounds: "'workspace', 'workspace+network', 'read-only' or rules",
}
