/** Checks the arguments of workspace and checkpoint calls. */
import { invalidOption } from '../base/errors.js'
import { forkOptions } from '../calls/checkpoint.js'
import { mergeOptions } from '../calls/merge.js'
import { workspaceDiffOptions } from '../calls/workspace.js'
import type { CompleteValues, OptionValues } from '../schema/kind.js'
import { count as counted } from '../schema/numbers.js'
import { describe, readArgument, readOptions, readWithDefaults } from '../schema/read.js'

export type DiffPlan = CompleteValues<typeof workspaceDiffOptions>

export interface ForkPlan extends OptionValues<typeof forkOptions> {
  count: number
  /** Called without a count, so the caller gets one sandbox and no list. */
  isOne: boolean
}

const forkCount = counted(1, 256)

export function planDiff(options: unknown): DiffPlan {
  return readWithDefaults(workspaceDiffOptions, options, 'workspace.diff')
}

/** Without a count, the options come first. */
export function planFork(first: unknown, second: unknown): ForkPlan {
  const hasOptions = second === undefined && typeof first === 'object' && first !== null
  const isOne = first === undefined || hasOptions
  const count = isOne ? 1 : readArgument(forkCount.read, first, 'count')
  return { count, isOne, ...readOptions(forkOptions, hasOptions ? first : second, 'fork') }
}

export type MergePlan = CompleteValues<typeof mergeOptions>

/** Maximum sandboxes of a merge. */
const MAX_MERGED = 256

/** `isOne` says whether a value is a sandbox that can be merged. Throws OptionError. */
export function planMerge<S>(
  sandboxes: unknown,
  isOne: (value: unknown) => value is S,
  options: unknown,
): MergePlan & { sandboxes: S[] } {
  const list = readArgument(
    (value, name) => {
      const isList = Array.isArray(value) && value.length >= 2 && value.length <= MAX_MERGED
      if (!isList)
        throw invalidOption(`${name} must be a list of 2 to ${MAX_MERGED} sandboxes; got ${describe(value)}`)
      return value.map((entry: unknown, at) => {
        if (!isOne(entry))
          throw invalidOption(`${name}[${at}] must be a sandbox of this program; got ${describe(entry)}`)
        const first = value.indexOf(entry)
        if (first !== at) throw invalidOption(`${name}[${at}] must be another sandbox than ${name}[${first}]`)
        return entry
      })
    },
    sandboxes,
    'sandboxes',
  )
  return { sandboxes: list, ...readWithDefaults(mergeOptions, options, 'Sandbox.merge') }
}

/** The id of a checkpoint, from an id or a checkpoint. Throws OptionError. */
export function checkpointReference(point: unknown): string {
  return readArgument(
    (value, name) => {
      const found = typeof value === 'object' && value !== null ? (value as { id?: unknown }).id : value
      if (typeof found === 'string') return String(checkpointNumber(found))
      throw invalidOption(`${name} must be a checkpoint or its id; got ${describe(value)}`)
    },
    point,
    'checkpoint',
  )
}

/** More checkpoints than any workspace has had. */
const NO_CHECKPOINT = 10 ** 15

/** The number of a checkpoint, by its id. An id that none can have has the number of none. */
export function checkpointNumber(id: string): number {
  return /^[1-9][0-9]{0,14}$/.test(id) ? Number(id) : NO_CHECKPOINT
}
