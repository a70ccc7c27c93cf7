/** docs/errors.md: the cause of every error code and its fix, as Markdown. */

import type { AbortError, AddonErrorCode, OptionErrorCode, SandboxErrorCode } from '../public/index.js'

interface ErrorDoc {
  cause: string
  fix: string
}

const RUN: Record<SandboxErrorCode | AbortError['code'], ErrorDoc> = {
  ABORT_ERR: {
    cause: 'The AbortSignal of the call was aborted. The class is AbortError.',
    fix: 'None. `error.cause` is the reason of the abort.',
  },
  COMMAND_FAILED: {
    cause: 'With `check: true`, the command exited with a code other than 0, or a signal ended it.',
    fix: 'Read `error.result`. The message ends with the last lines of stderr.',
  },
  COMMAND_TIMEOUT: {
    cause: 'The command ran longer than `timeout` and was killed.',
    fix: 'Raise `timeout`, or read the output so far in `error.result`. The session can be used.',
  },
  CONNECTION_FAILED: {
    cause: '`nacre/client` cannot reach the server, or the connection broke.',
    fix: 'Check `url` and that the server runs. Commands that ran over the connection have been killed.',
  },
  CWD_NOT_FOUND: {
    cause: 'The working directory does not exist or cannot be entered.',
    fix: 'Create it or correct `cwd`. Nothing has run.',
  },
  ENGINE_ERROR: {
    cause: 'The engine failed, or its supervisor was killed while a command ran.',
    fix: 'Call again: the session is restored. Report a bug if it repeats, with the output of NACRE_LOG=debug.',
  },
  FILE_EXISTS: {
    cause: 'A file or directory is in the way.',
    fix: 'Remove it first, or use another name. The error has the `path`.',
  },
  FILE_NOT_FOUND: {
    cause: 'There is no such file, or a directory of its path is missing.',
    fix: 'Check the `path` of the error. Relative paths start at the current directory of the session.',
  },
  FILE_TOO_LARGE: {
    cause: 'The file is longer than `maxBytes`, or than the file system takes.',
    fix: 'Raise `maxBytes`, or use `readStream`.',
  },
  HOST_ID_IN_USE: {
    cause: 'Two workers of a queue have the same host id, and the other one is alive.',
    fix: 'Give each host an id of its own. A restarted worker waits a few seconds for its predecessor by itself.',
  },
  HOST_LOST: {
    cause: 'The host of a job in a queue was silent for longer than its lease, or has no record of the job.',
    fix: 'Start its worker again for its logs. Raise `lease`, or set `onHostLost` and `attempts` for jobs that may run twice.',
  },
  INPUT_CLOSED: {
    cause: 'The input of the process is closed: the process ended, or one side closed it.',
    fix: 'Stop writing. Start the process again if it should have read more.',
  },
  INVALID_ENV_NAME: {
    cause:
      'A variable is read-only in the session, or its name is malformed (then the class is OptionError).',
    fix: 'Use a name of letters, digits and `_` that does not begin with a digit.',
  },
  INVALID_PATH: {
    cause: 'The path is empty, too long or has a NUL, or no file of the required kind can have it.',
    fix: 'Name a regular file or a directory. FIFOs and devices are for commands.',
  },
  ISOLATION_UNSUPPORTED: {
    cause: 'This machine cannot enforce a rule of `isolation`.',
    fix: 'The message names the rule and the reason. Run `nacre doctor`, change the rule, or set `bestEffort`.',
  },
  IS_A_DIRECTORY: {
    cause: 'The path is that of a directory, and the call needs a file.',
    fix: 'Name a file, or set `recursive`.',
  },
  JOB_ALREADY_EXISTS: {
    cause: 'A job with this id exists or is being started.',
    fix: 'Use another id, or leave it out.',
  },
  JOB_NOT_FOUND: {
    cause: 'There is no job with this id, or its files are damaged.',
    fix: 'Check `jobsRoot` and `jobs.list()`. The message names a damaged file.',
  },
  JOB_RUNNING: { cause: 'A running job cannot be removed.', fix: 'Cancel it first.' },
  LIMIT_UNSUPPORTED: {
    cause: 'This machine cannot enforce a limit.',
    fix: 'The message names the reason. Delegate control groups, or leave the limit out. Nothing has run.',
  },
  NOT_A_DIRECTORY: {
    cause: 'A part of the path is a file, and the call needs a directory there.',
    fix: 'Check the `path` of the error.',
  },
  NO_SPACE: {
    cause: 'The disk or a quota is full. The old content of the file stays.',
    fix: 'Free some space.',
  },
  PERMISSION_DENIED: {
    cause:
      'The user of the session, or a rule of `isolation`, does not allow it; or the file system is read-only.',
    fix: 'Check the owner and mode of the file, and `isolation.filesystem`.',
  },
  PROCESS_ALREADY_EXISTS: {
    cause: 'A process with this id is known, running or ended.',
    fix: 'Use another id, or call `cleanupCompletedProcesses()`.',
  },
  PROCESS_EXITED_BEFORE_READY: {
    cause: 'The process ended before its health check or wait succeeded.',
    fix: 'Read `error.logTail`, the last lines of its log.',
  },
  PROCESS_NOT_FOUND: {
    cause: 'There is no process with this id, or it was cleaned up.',
    fix: 'Check `listProcesses()`.',
  },
  PROCESS_READY_TIMEOUT: {
    cause: 'A health check or a wait did not succeed in time. A service is then killed.',
    fix: 'Read `error.logTail`, and raise the timeout if the process is only slow.',
  },
  REQUEST_REFUSED: {
    cause: 'The server of `nacre/client` rejected the request.',
    fix: 'Check the token. The message has the reason.',
  },
  SANDBOX_DESTROYED: { cause: '`destroy()` was called.', fix: 'Create a new sandbox.' },
  SANDBOX_LOST: {
    cause:
      'The pod or host of a sandbox ended, was deleted or was replaced. Its processes, shells and unsaved files are lost.',
    fix: 'Read `error.lost`. Create a sandbox anew, and repeat what is safe to repeat. No other sandbox has answered.',
  },
  SANDBOX_NOT_READY: {
    cause:
      'A sandbox of a fleet was not ready within `createTimeout`. What was created of it has been deleted.',
    fix: 'Read the message, which has the last condition of the claim. Check the warm pool and its template.',
  },
  SESSION_ALREADY_EXISTS: {
    cause: 'A session with this id exists.',
    fix: 'Call `getSession(id)`, or use another id.',
  },
  SESSION_DESTROYED: {
    cause: 'The session was deleted while the call was pending.',
    fix: 'Create the session again if you still need it.',
  },
  SESSION_NOT_FOUND: { cause: 'There is no session with this id.', fix: 'Call `createSession({ id })`.' },
  SESSION_TERMINATED: {
    cause: 'With `surviveExit: false`, the shell has ended.',
    fix: 'Delete the session and create another one.',
  },
  SPAWN_FAILED: {
    cause: 'There is no bash, it is older than 4.4, or a process could not be started.',
    fix: 'The message names the reason. Check `capabilities().notes`, and limits of processes and memory.',
  },
  STATE_DIR_UNAVAILABLE: {
    cause: '`stateDir` or `jobsRoot` cannot be created or written, or other users can change it.',
    fix: 'Name a directory that belongs to this user and that only this user can write.',
  },
}

const ARGUMENT: Record<Exclude<OptionErrorCode, 'INVALID_ENV_NAME'>, ErrorDoc> = {
  INVALID_COMMAND: {
    cause: 'The command is blank, is an empty list, or contains a NUL.',
    fix: 'Correct the command.',
  },
  INVALID_ID: {
    cause: 'An id of a session, process or job is malformed.',
    fix: 'Use 1 to 128 of `A-Z a-z 0-9 . _ -`, but not `.` or `..`.',
  },
  INVALID_OPTION: {
    cause: 'An option is unknown, or its value is out of range.',
    fix: 'The message names the option and its bounds.',
  },
  STREAM_LOCKED: {
    cause: 'A stream has a second reader, or its reader began after `result` was awaited.',
    fix: 'Read a stream once, and begin before you await `result`.',
  },
}

const ADDON: Record<AddonErrorCode, ErrorDoc> = {
  ADDON_MISSING: {
    cause: 'The platform package is not installed, or a clone is not built.',
    fix: 'Reinstall with optional dependencies on this machine; in a clone, run `npm run setup`.',
  },
  ADDON_NOT_EXECUTABLE: {
    cause: 'The supervisor is not executable, or its file system is mounted with noexec.',
    fix: 'Reinstall, or move node_modules or TMPDIR to a file system that allows execution.',
  },
  ADDON_NOT_LOADABLE: {
    cause: 'The loader rejects the addon: the file is damaged, or the C library is too old.',
    fix: 'Read the reason of the loader in the message, and reinstall.',
  },
  ADDON_UNSUPPORTED_NODE: { cause: 'Node.js is older than 20.19.', fix: 'Install a newer Node.js.' },
  ADDON_UNSUPPORTED_PLATFORM: {
    cause: 'The system is not Linux on x64 or arm64.',
    fix: 'Use a container, a virtual machine or WSL 2.',
  },
  ADDON_WRONG_ARCHITECTURE: {
    cause: 'node_modules was installed for another processor.',
    fix: 'Remove node_modules and install again on this machine.',
  },
  ADDON_WRONG_LIBC: {
    cause: 'node_modules was installed for another C library (glibc or musl).',
    fix: 'Remove node_modules and install again on this machine.',
  },
  ADDON_WRONG_VERSION: {
    cause: 'The platform package and `nacre` have different versions.',
    fix: 'Remove node_modules and install again.',
  },
}

const HEAD = `# Errors

Every error code, its cause and its fix. This page is written by \`npm run docs:options\` from \`lib/protocol/error-docs.ts\`,
which must have every code of the public types. All errors have a \`code\`. [Troubleshooting](troubleshooting.md) has
problems that are not errors.
`

/** The whole page. */
export function errorsPage(): string {
  return [
    HEAD,
    section('At run time', '`SandboxError`, and `AbortError` for ABORT_ERR.', RUN),
    section('Bad arguments', '`OptionError`, which is a TypeError. Nothing has run.', ARGUMENT),
    section('The native addon', '`AddonError`: calls reject because the addon cannot be loaded.', ADDON),
  ].join('\n')
}

function section(title: string, about: string, docs: Record<string, ErrorDoc>): string {
  const entries = Object.entries(docs).map(
    ([code, { cause, fix }]) => `### ${code}\n\n- **Cause:** ${cause}\n- **Fix:** ${fix}\n`,
  )
  return `## ${title}\n\n${about}\n\n${entries.join('\n')}`
}
