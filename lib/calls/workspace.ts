/** Copy-on-write workspaces: what programs changed, before it becomes real. */

import { fromBase64 } from '../base/base64.js'
import { base64, dataSchema, type WireData } from '../schema/command.js'
import { either, mapped, object, oneOf, list as optionList, pattern, text } from '../schema/constructors.js'
import { type FromBase64, type Kind, type OptionValues, table } from '../schema/kind.js'
import { displayName, identifier } from '../schema/names.js'
import { count } from '../schema/numbers.js'
import { type CheckedPath, checkPath, directory, encodePath, isText, sandboxPath } from '../schema/paths.js'
import { refusal } from '../schema/read.js'
import {
  boolean,
  bytes,
  date,
  type Fields,
  list,
  number,
  optional,
  orNull,
  reply,
  text as replyText,
  wordOf,
} from '../schema/reply.js'
import { abortSignal } from '../schema/signals.js'
import { flag } from '../schema/values.js'

/** Options of a copy-on-write workspace. */
export interface WorkspaceOptions {
  /** Programs write to a private layer above the real directory. */
  mode: 'copy-on-write'
  /** The directory: an existing one, but not /. It is resolved once, at construction. Default: the sandbox's `cwd`. */
  path?: string | URL
  /**
   * A name. The layers are kept when the sandbox is destroyed or this process dies, and the next sandbox with this name and
   * directory goes on with them: files, but no shell. Letters, digits, `.`, `_` and `-`, at most 128. The first call rejects
   * with WORKSPACE_IN_USE if another sandbox has it open, and with WORKSPACE_LOST if the layers cannot be trusted, as after a
   * crash of the machine. Default: none.
   */
  id?: string
  /**
   * Directory of the layers of all workspaces. It is created with mode 0700, and must be neither above nor below `path`. It
   * should be on the file system of `path`: large files can be cloned then. Default: `workspaces` in `stateDir`.
   */
  directory?: string | URL
  /** Where the layers are. 'memory': they end with this process, and take memory. Not with `id` or `directory`. Default: 'disk'. */
  storage?: 'disk' | 'memory'
  /**
   * Maximum bytes of the layers, 1 to Number.MAX_SAFE_INTEGER. In memory, programs get ENOSPC beyond it. On disk, nacre measures
   * the layers while the free space of the disk changes. If they have grown beyond it, everything that runs or waits in the sandbox gets
   * SIGKILL, and calls reject with BUDGET_EXCEEDED. What was written until then stays, and later commands can remove it; one that
   * lets the layers grow further ends the same way. Default: no limit.
   */
  maxBytes?: number
  /**
   * How many commands `sandbox.undo()` can take back, 0 to 100: an automatic checkpoint precedes each command of `exec`,
   * `execStream` and `$` if nothing else uses the workspace, and so many are kept. It takes some milliseconds. Default: 0.
   */
  undoSteps?: number
  /**
   * Mounts below the directory, as a container has for `node_modules`. 'refuse': the first call rejects with WORKSPACE_UNSUPPORTED. 'pass': a
   * session sees those that there are at its start as they are. Writes there are real: no change, commit, undo or fork has them.
   * `usage()` names them. It needs root. Default: 'refuse'.
   */
  submounts?: 'refuse' | 'pass'
}

export const workspaceOptions = table<WorkspaceOptions>()({
  mode: oneOf(['copy-on-write']),
  path: directory,
  id: identifier,
  directory,
  storage: { ...oneOf(['disk', 'memory']), default: 'disk' },
  maxBytes: count(1, Number.MAX_SAFE_INTEGER),
  undoSteps: { ...count(0, 100), default: 0 },
  submounts: { ...oneOf(['refuse', 'pass']), default: 'refuse' },
})

/** A path from JSON. */
const decodePath = (path: WireData, fromBase64: FromBase64, name: string) =>
  typeof path === 'string' ? path : fromBase64(base64.read(path.base64, `${name}.base64`))

const MODES = ['direct', 'copy-on-write'] as const

/** The options of a copy-on-write workspace; undefined for the real files. */
export const workspace: Kind<
  (typeof MODES)[number] | WorkspaceOptions,
  OptionValues<typeof workspaceOptions> | undefined
> = either(
  mapped(oneOf(MODES, "must be 'direct', 'copy-on-write' or { mode: 'copy-on-write' }"), (mode) =>
    mode === 'direct' ? undefined : { mode },
  ),
  (value) => typeof value !== 'object' || value === null || Array.isArray(value),
  object(workspaceOptions, ['mode']),
  "'direct', 'copy-on-write' or an object",
)

/** A workspace whose layers are kept. */
export interface NamedWorkspace {
  /** Its name. */
  id: string
  /** Its directory; null if the note about it is damaged, or of another version of nacre. */
  path: string | null
  /** Whether a sandbox has it open. */
  inUse: boolean
  /** When it was last opened, committed or closed. */
  usedAt: Date
}

export const namedWorkspace = reply<NamedWorkspace>(
  { id: replyText, path: orNull(replyText), inUse: boolean, usedAt: date },
  'NamedWorkspace',
)

/** What copy-on-write workspaces can do on this machine, found by trying. */
export interface WorkspaceCapabilities {
  /** Whether they work. */
  copyOnWrite: boolean
  /** Whether programs can rename real directories; without root, nacre copies them. Otherwise they get EXDEV, and `git mv` fails. */
  directoryRename: boolean
  /** Whether the first write to a large file copies it without copying its content (btrfs, xfs). */
  reflink: boolean
  /** Sentences about what is missing, and the reasons. */
  notes: string[]
}

export const workspaceCapabilities = reply<WorkspaceCapabilities>({
  copyOnWrite: boolean,
  directoryRename: boolean,
  reflink: boolean,
  notes: list(replyText),
})

/** The kind of a file. */
export type EntryKind = 'file' | 'directory' | 'symlink' | 'fifo' | 'socket' | 'device'

/** One changed path of a workspace. */
export interface Change {
  /** Relative to the workspace; '.' is the workspace itself. Bytes that are not UTF-8 appear as U+FFFD. */
  path: string
  /** The path as it is on disk. */
  pathBytes: Uint8Array
  /**
   * How it differs from the real directory. `replaced`: by another kind of file. `metadata`: only in its mode, owner or
   * extended attributes.
   */
  type: 'created' | 'modified' | 'deleted' | 'replaced' | 'metadata'
  /** What it is, or was if it is deleted. */
  kind: EntryKind
  /** Bytes; 0 for a directory. */
  size: number
  /** Permissions: 07777. */
  mode: number
  /** The entry of the real directory; null if it is created. */
  before: { kind: EntryKind; size: number; mode: number } | null
  /**
   * Why a commit leaves it out unless `paths` names it: a program of the machine runs or obeys it later. Only with `isolation`
   * that protects such files.
   */
  withheld?: string
}

const entryKind = wordOf('file', 'directory', 'symlink', 'fifo', 'socket', 'device')
const entry = { kind: entryKind, size: number, mode: number }
const encoder = new TextEncoder()

const changeMembers: Fields<Change> = {
  path: replyText,
  pathBytes: {
    ...bytes,
    name: 'pathBase64',
    description: 'Omitted if `path` is the whole name.',
    isOptional: true,
    isSent: ({ path, pathBytes }: Change) => !isText({ bytes: pathBytes, shown: path }),
    decode: (json, _encoding, { path }: Change) =>
      json === undefined ? encoder.encode(path) : fromBase64(json),
  },
  type: wordOf('created', 'modified', 'deleted', 'replaced', 'metadata'),
  ...entry,
  before: orNull(reply(entry)),
  withheld: optional(replyText),
}

export const change = reply<Change>(changeMembers, 'Change')

/** Options of {@link Workspace.changes}. */
export interface WorkspaceChangesOptions {
  /**
   * Only these paths and everything below them; relative to the workspace, or absolute inside it. Links are not followed.
   * Default: all.
   */
  paths?: (string | Uint8Array)[]
  /** Aborting rejects the call with an `AbortError`. */
  signal?: AbortSignal
}

/** Paths of a workspace, as text or bytes. */
export const workspacePaths: Kind<(string | Uint8Array)[], CheckedPath[]> = {
  read(value, name) {
    if (!Array.isArray(value) || value.length === 0)
      throw refusal(name, 'must be a list of paths, not empty', value)
    return value.map((path, at) => checkPath(path, `${name}[${at}]`))
  },
  json: {
    schema: { items: { schema: dataSchema } },
    rule: 'must be a list of paths, each as text or bytes like {"base64": "/w=="}',
    encode: (paths: CheckedPath[]) => paths.map(encodePath),
    decode: (json: WireData[], fromBase64: FromBase64) =>
      json.map((path, at) => decodePath(path, fromBase64, `[${at}]`)),
  },
  bounds: 'a list of paths, not empty',
}

export const workspaceChangesOptions = table<WorkspaceChangesOptions>()({
  paths: workspacePaths,
  signal: abortSignal,
})

/** Options of {@link Workspace.diff}. */
export interface WorkspaceDiffOptions extends WorkspaceChangesOptions {
  /** Maximum bytes of the patch, 1 to 1073741824. Beyond it: FILE_TOO_LARGE. Default: 268435456 (256 MiB). */
  maxBytes?: number
}

export const workspaceDiffOptions = table<WorkspaceDiffOptions>()({
  ...workspaceChangesOptions,
  maxBytes: { ...count(1, 1 << 30), default: 256 << 20 },
})

/** Options of {@link Workspace.review}. */
export interface WorkspaceReviewOptions extends WorkspaceChangesOptions {
  /** Maximum bytes of all hunks together, 1 to 67108864. Files beyond it have none. Default: 4194304 (4 MiB). */
  maxBytes?: number
}

export const workspaceReviewOptions = table<WorkspaceReviewOptions>()({
  ...workspaceChangesOptions,
  maxBytes: { ...count(1, 64 << 20), default: 4 << 20 },
})

/** Lines of a file that differ, with up to three equal ones around them. */
export interface Hunk {
  /** Names these lines at this place of this file. Other lines have another id. */
  id: string
  /** Where they are in the real file: the first line, from 1; the line before, if there are none. */
  beforeStart: number
  /** How many lines that are. */
  beforeLines: number
  /** Where they are in the workspace. */
  start: number
  /** How many lines that are. */
  lines: number
  /** Lines that it adds. */
  added: number
  /** Lines that it removes. */
  removed: number
  /** As a patch has it, from `@@` on. Bytes that are not UTF-8 appear as U+FFFD. */
  text: string
}

/** A change in a {@link Review}. */
export interface ReviewedChange extends Change {
  /** Why it runs later, or counts as generated: one clause. Only in these groups. */
  reason?: string
  /** Lines that it adds. 0 for what has no lines, or is not read. */
  added: number
  /** Lines that it removes. */
  removed: number
  /** Its differences, in their order. */
  hunks: Hunk[]
  /**
   * Why there are no hunks. `kind`: only the changed content of a file has hunks. `large`: above 1 MiB. `generated`: a
   * generated file that is new or deleted. `maxBytes`: other changes have used them up.
   */
  withoutHunks?: 'kind' | 'large' | 'binary' | 'generated' | 'maxBytes'
}

/** The changes of a workspace in groups. Each change is in the first one that fits. */
export interface Review {
  /** Programs of the machine run or obey it later, like git hooks. */
  runsLater: ReviewedChange[]
  /** Programs have generated it, by evidence in the real directory. */
  generated: ReviewedChange[]
  /** Files above 1 MiB, before or now. */
  large: ReviewedChange[]
  /** Files with a NUL in the first 8000 bytes, before or now. */
  binary: ReviewedChange[]
  /** All else. */
  source: ReviewedChange[]
}

const hunk = reply<Hunk>(
  {
    ...{ id: replyText, beforeStart: number, beforeLines: number, start: number, lines: number },
    ...{ added: number, removed: number, text: replyText },
  },
  'Hunk',
)

const reviewed = list(
  reply<ReviewedChange>(
    {
      ...changeMembers,
      ...{ reason: optional(replyText), added: number, removed: number, hunks: list(hunk) },
      withoutHunks: optional(wordOf('kind', 'large', 'binary', 'generated', 'maxBytes')),
    },
    'ReviewedChange',
  ),
)

export const review = reply<Review>(
  { runsLater: reviewed, generated: reviewed, large: reviewed, binary: reviewed, source: reviewed },
  'Review',
)

/** Which command has last written a path. */
export interface Blame {
  /** The command, at most its first 1000 characters. Those that several sessions began at the same moment are lines of it. */
  command: string
  /** The ids of the sessions that ran it. */
  sessions: string[]
  /** When it began. */
  startedAt: Date
  /** What it has done to the path. */
  type: 'created' | 'modified' | 'deleted' | 'replaced'
  /** How many calls of {@link Sandbox.undo} take it back: 1 for the last command that has a step. */
  undos: number
}

export const blame = reply<Blame>(
  {
    ...{ command: replyText, sessions: list(replyText), startedAt: date },
    ...{ type: wordOf('created', 'modified', 'deleted', 'replaced'), undos: number },
  },
  'Blame',
)

/** Some hunks of a changed file. */
export interface HunkChoice {
  /** The file; relative to the workspace, or absolute inside it. */
  path: string | Uint8Array
  /** The `id` of each {@link Hunk}: 1 to 10000 of 16 hexadecimal digits. */
  ids: string[]
}

const MOST_HUNKS = 10_000

const hunkIds = pattern(/^[0-9a-f]{16}$/, 'must be the id of a hunk, like 0123456789abcdef')

export const hunkChoiceOptions = table<HunkChoice>()({
  path: sandboxPath,
  ids: optionList(hunkIds, MOST_HUNKS, {
    rule: 'must be a list of 1 to 10000 ids of hunks',
    bounds: 'a list of 1 to 10000 ids of hunks',
  }),
})

const hunkList = optionList(object(hunkChoiceOptions, ['path', 'ids']), MOST_HUNKS, {
  rule: 'must be a list of at most 10000 objects with path and ids',
  bounds: 'a list of at most 10000 objects with path and ids',
})

type CheckedHunks = ReturnType<(typeof hunkList)['read']>

/** Some hunks of changed files. */
export const hunkChoices: Kind<HunkChoice[], CheckedHunks> = {
  ...hunkList,
  json: {
    schema: { items: { schema: { options: hunkChoiceOptions, required: ['path', 'ids'], isOpen: false } } },
    encode: (choices: CheckedHunks) => choices.map(({ path, ids }) => ({ path: encodePath(path), ids })),
    // What is no choice is refused by its reader.
    decode: (json: { path?: WireData | null; ids: string[] }[], fromBase64: FromBase64) =>
      json.map((choice, at) =>
        typeof choice?.path === 'object' && choice.path !== null
          ? { ...choice, path: decodePath(choice.path, fromBase64, `[${at}].path`) }
          : choice,
      ),
  },
}

/** Options of {@link Workspace.commit}. */
export interface WorkspaceCommitOptions extends WorkspaceChangesOptions {
  /**
   * These hunks of other files, too; without `paths`, only they. All hunks of a file are the file, with its permissions. Not with
   * `branch`. Default: none.
   */
  hunks?: HunkChoice[]
  /**
   * Whether to overwrite what other programs have changed in the real directory meanwhile; with `branch`, to go on with a branch
   * that has commits of others, without their files. Default: false.
   */
  force?: boolean
  /** Whether to wait until the disk has everything. Default: true. */
  sync?: boolean
  /**
   * Commits to this branch of git instead, 1 to 256 characters: the real files, the index and HEAD stay as they are, the changes
   * stay in the workspace, and no hook runs. Contents are stored as by `git add`: with the filters of your configuration, which run
   * outside of the sandbox, as the real `.gitattributes` say. Ignored files are left out. The branch begins at HEAD if there is none, and
   * must not be checked out. Needs `message`, and git on this machine. Default: none.
   */
  branch?: string
  /** The message of the commit on `branch`: 1 to 65536 characters. Default: none. */
  message?: string
  /**
   * Aborting ends the wait for running commands: the call rejects with an `AbortError`, having applied nothing. A
   * commit that has begun goes on, and the abort has no effect.
   */
  signal?: AbortSignal
}

const commitMessage = text(
  (message) => message.trim() !== '' && message.length <= 65_536 && !message.includes('\0'),
  'must be 1 to 65536 characters, not only spaces, without a NUL',
  { bounds: '1 to 65536 characters, no NUL' },
)

export const workspaceCommitOptions = table<WorkspaceCommitOptions>()({
  ...workspaceChangesOptions,
  hunks: hunkChoices,
  force: { ...flag, default: false },
  sync: { ...flag, default: true },
  branch: displayName,
  message: commitMessage,
})

/** Options of {@link Workspace.discard}. */
export interface WorkspaceDiscardOptions extends WorkspaceChangesOptions {
  /** These hunks of other files, too; without `paths`, only they. All hunks of a file are the file. Default: none. */
  hunks?: HunkChoice[]
  /**
   * Aborting ends the wait for running commands: the call rejects with an `AbortError`, having discarded nothing. A
   * discard that has begun goes on, and the abort has no effect.
   */
  signal?: AbortSignal
}

export const workspaceDiscardOptions = table<WorkspaceDiscardOptions>()({
  ...workspaceChangesOptions,
  hunks: hunkChoices,
})

/** What {@link Workspace.commit} did. */
export interface Commit {
  /** The number of changes that the real directory, or the branch, has now. */
  applied: number
  /**
   * The changes that could not be applied: sockets, devices and what is below a directory that became one, directories that
   * have new files of other programs, with `force` what they changed at the moment of the commit, and what is `withheld`.
   */
  skipped: { path: string; reason: string }[]
  /** With `branch`: the id of the commit, unless there was nothing to commit. */
  id?: string
}

export const commit = reply<Commit>({
  applied: number,
  skipped: list(reply({ path: replyText, reason: replyText })),
  id: optional(replyText),
})

/** What the layers of a workspace take on disk. */
export interface WorkspaceUsage {
  /** Allocated bytes. */
  bytes: number
  /** Files and directories. */
  files: number
  /** Layers, with the one that receives the writes. */
  layers: number
  /** The mounts below the directory that programs see as they are: see {@link WorkspaceOptions.submounts}. */
  submounts: string[]
}

export const workspaceUsage = reply<WorkspaceUsage>({
  bytes: number,
  files: number,
  layers: number,
  submounts: list(replyText),
})

/**
 * The copy-on-write workspace of a sandbox. All calls but `list` and `delete` reject with WORKSPACE_NOT_ENABLED if the
 * sandbox has none, with WORKSPACE_UNSUPPORTED if this machine allows none, and for a named one with WORKSPACE_IN_USE and
 * WORKSPACE_LOST.
 */
export interface Workspace {
  /** The directory, as programs see it, and the name. */
  info(): Promise<{ path: string; id: string | null }>
  /**
   * Compares with the real directory as it is now, and lists the differences in the order of their bytes. Equal content and
   * times do not count. A renamed directory appears as deleted and created.
   *
   * Rejects with INVALID_PATH for a path outside the workspace.
   */
  changes(options?: WorkspaceChangesOptions): Promise<Change[]>
  /**
   * Writes a patch in the format of `git diff --binary`, which `git apply` accepts in the real directory. Paths with a
   * component `.git`, empty directories, pipes, sockets, devices, owners, and modes other than the executable bit are
   * omitted: the format has no form for them.
   *
   * Rejects with INVALID_PATH, with PERMISSION_DENIED if a real file cannot be read, and with FILE_TOO_LARGE if the patch is longer than `maxBytes`, or a file is longer than
   * 512 MiB.
   */
  diff(options?: WorkspaceDiffOptions): Promise<Uint8Array>
  /**
   * Groups the changes for a person who reviews them, with the hunks of texts. `commit` and `discard` take hunks by their ids.
   *
   * Rejects like {@link Workspace.diff}.
   */
  review(options?: WorkspaceReviewOptions): Promise<Review>
  /**
   * Finds the command that has last written a path: its content, or its target. With `undoSteps`, from the steps that are kept.
   * What has no step, like a file call, is part of the command before it. Null if the path has not changed since the first step, or
   * by something before it. A fork begins without steps.
   *
   * Rejects with INVALID_PATH for a path outside the workspace.
   */
  blame(path: string | Uint8Array): Promise<Blame | null>
  /**
   * Applies the changes to the real directory. Waits for the running commands of all sessions, and stops background
   * processes for the moment; new commands wait. Do not await it while reading the stream of a command. Each file is replaced in one step, and the whole is journaled: if this process dies, what
   * has begun is completed. What gets another content gets the present time.
   *
   * Rejects, having applied nothing or taken it back, with WORKSPACE_CONFLICT if other programs have changed the same paths (`paths` of the
   * error names them) or the branch has commits of others, FILE_NOT_FOUND if one of `paths` names no change or a hunk is not there any more, INVALID_PATH, NO_SPACE, PERMISSION_DENIED, and
   * WORKSPACE_BUSY if background processes run that cannot be stopped, because there is no control group. With `branch`, also with
   * WORKSPACE_UNSUPPORTED without git or a repository, INVALID_OPTION for a branch that cannot be used, ENGINE_ERROR with the `path`
   * if a required filter fails, and FILE_TOO_LARGE for a file
   * of more than 512 MiB.
   */
  commit(options?: WorkspaceCommitOptions): Promise<Commit>
  /**
   * Takes changes back: the paths are again as in the real directory. The state of the shells stays. Waits and stops
   * programs like {@link Workspace.commit}. What gets another content gets the present time, unless it is generated.
   *
   * Rejects with FILE_NOT_FOUND if one of `paths` names no change or a hunk is not there any more, INVALID_PATH and WORKSPACE_BUSY. After NO_SPACE,
   * PERMISSION_DENIED or ENGINE_ERROR, a part of the changes may be discarded.
   */
  discard(options?: WorkspaceDiscardOptions): Promise<{ discarded: number }>
  /** Measures the layers. */
  usage(): Promise<WorkspaceUsage>
  /** Lists the named workspaces whose layers are in the same directory. Any sandbox can, also a destroyed one. */
  list(): Promise<NamedWorkspace[]>
  /**
   * Deletes a named workspace whose layers are in the same directory. Any sandbox can, also a destroyed one. Default: its own.
   *
   * Rejects with WORKSPACE_IN_USE while a sandbox has it open, and with FILE_NOT_FOUND if there is none.
   */
  delete(id?: string): Promise<void>
}
