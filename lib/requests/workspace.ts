/** Checks the arguments of workspace calls. */
import { OptionError, SandboxError } from '../base/errors.js'
import {
  workspaceChangesOptions,
  workspaceCommitOptions,
  workspaceDiffOptions,
  workspaceDiscardOptions,
} from '../protocol/workspace-options.js'
import type { CheckedPath } from '../schema/paths.js'
import { describe, quote, readArgument, readOptions, readWithDefaults } from '../schema/read.js'

/** What all calls take. */
interface CallPlan {
  /** Relative to the workspace; '.' is the workspace itself. Null: all. */
  paths: Uint8Array[] | null
  signal: AbortSignal | undefined
}

/** `root` is the absolute path of the workspace, here and below. */
export function planChanges(options: unknown, root: string): CallPlan {
  const { paths, signal } = readOptions(workspaceChangesOptions, options, 'workspace.changes')
  return { paths: below(root, paths), signal }
}

export function planDiff(options: unknown, root: string): CallPlan & { maxBytes: number } {
  const values = readWithDefaults(workspaceDiffOptions, options, 'workspace.diff')
  return { ...values, paths: below(root, values.paths) }
}

export function planCommit(options: unknown, root: string): CallPlan & { force: boolean; sync: boolean } {
  const values = readWithDefaults(workspaceCommitOptions, options, 'workspace.commit')
  return { ...values, paths: below(root, values.paths) }
}

export function planDiscard(options: unknown, root: string): CallPlan {
  const { paths, signal } = readOptions(workspaceDiscardOptions, options, 'workspace.discard')
  return { paths: below(root, paths), signal }
}

/** The number of a checkpoint, given by itself or by its id. */
export function readCheckpoint(point: unknown): number {
  const id = readArgument(
    (value, name) => {
      const found = typeof value === 'object' && value !== null ? (value as { id?: unknown }).id : value
      if (typeof found === 'string') return found
      throw new OptionError(
        'INVALID_OPTION',
        `${name} must be a checkpoint or its id; got ${describe(value)}`,
      )
    },
    point,
    'checkpoint',
  )
  if (/^[1-9][0-9]{0,14}$/.test(id)) return Number(id)
  throw new SandboxError('CHECKPOINT_NOT_FOUND', `there is no checkpoint ${quote(id)}`)
}

function below(root: string, paths: CheckedPath[] | undefined): CallPlan['paths'] {
  return paths?.map((path) => relative(path, root)) ?? null
}

/** A path without `.` and `..`, by its names alone: it names an entry of the workspace, and no link is followed. */
function relative({ bytes, shown }: CheckedPath, root: string): Uint8Array {
  const names: string[] = []
  const rootNames = namesOf(Buffer.from(root))
  const isAbsolute = bytes[0] === SLASH
  for (const name of isAbsolute ? namesOf(bytes) : [...rootNames, ...namesOf(bytes)]) {
    if (name === '..') names.pop()
    else if (name !== '.') names.push(name)
  }
  if (rootNames.some((name, at) => names[at] !== name)) {
    const message = `the path ${JSON.stringify(shown)} is outside the workspace ${root}`
    throw new SandboxError('INVALID_PATH', message, { path: shown })
  }
  return Buffer.from(names.slice(rootNames.length).join('/') || '.', 'latin1')
}

const SLASH = 47

/** The names of a path, each byte a character. */
function namesOf(path: Uint8Array): string[] {
  return Buffer.from(path).toString('latin1').split('/').filter(Boolean)
}
