/** docs/errors.md: the cause of every error code and its fix, as Markdown. */

import type { AbortError, AddonErrorCode, OptionErrorCode, SandboxErrorCode } from '../public/index.js'

interface ErrorDoc {
  cause: string
  fix: string
}

const RUN: Record<SandboxErrorCode | AbortError['code'], ErrorDoc> = {
  ABORT_ERR: {
    cause: 'Your program aborted the `signal` of the call. The error is an AbortError.',
    fix: 'None needed. `error.cause` is the reason of the abort.',
  },
  COMMAND_FAILED: {
    cause: '`check` is true, and the command exited with a code other than 0 or was ended by a signal.',
    fix: 'Read `error.result`. The message ends with the last lines of stderr.',
  },
  COMMAND_TIMEOUT: {
    cause: 'The command ran longer than `timeout` and was killed.',
    fix: 'Raise `timeout`. `error.result` has the output so far, and the session remains usable.',
  },
  CONNECTION_FAILED: {
    cause: 'The client cannot reach the server, or the connection broke.',
    fix: 'Check `url`, and that the server is running. Without `resume`, the server kills the commands of a broken connection.',
  },
  CWD_NOT_FOUND: {
    cause: 'The working directory does not exist or cannot be entered.',
    fix: 'Create the directory or correct `cwd`. Nothing has run.',
  },
  DETACH_FAILED: {
    cause:
      'The command has not begun, has ended or is being killed, or no shell can take the place of its own.',
    fix: 'Wait for the `start` event. A command that has ended needs no `detach`: its `result` has everything.',
  },
  ENGINE_ERROR: {
    cause: 'The engine failed, or its supervisor was killed while a command ran.',
    fix: 'Repeat the call: nacre restores the session. If the error recurs, report it with the output of `NACRE_LOG=debug`.',
  },
  FILE_EXISTS: {
    cause: 'The target path already exists.',
    fix: 'Remove what `error.path` names, or choose another name.',
  },
  FILE_NOT_FOUND: {
    cause: 'The file, or a directory in its path, does not exist.',
    fix: 'Check `error.path`. Relative paths start at the current directory of the session.',
  },
  FILE_TOO_LARGE: {
    cause: 'The file is larger than `maxBytes`, or than the file system allows.',
    fix: 'Raise `maxBytes`, or use `readStream`.',
  },
  HOST_ID_IN_USE: {
    cause: 'Another running worker of the queue uses this host id.',
    fix: 'Give each host its own id. A restarted worker waits a few seconds for its predecessor to exit.',
  },
  HOST_LOST: {
    cause: 'The host that ran the job sent no report for longer than `lease`, or has no record of the job.',
    fix: 'Restart the worker on that host to read its logs. Raise `lease`, or set `onHostLost` and `attempts` for jobs that may run twice.',
  },
  INPUT_CLOSED: {
    cause: 'The process ended, or its input was closed.',
    fix: 'Stop writing. If the process should have read more, check why it ended.',
  },
  INVALID_ENV_NAME: {
    cause:
      'The name of the variable is malformed (an OptionError), or the variable is read-only in the session.',
    fix: 'Use letters, digits and `_`, and do not begin with a digit. For a read-only variable, use another name.',
  },
  INVALID_PATH: {
    cause: 'The path is empty, too long or contains a NUL, or it leads to a file of the wrong kind.',
    fix: 'Name a regular file or a directory. Use a command for FIFOs and devices.',
  },
  ISOLATION_UNSUPPORTED: {
    cause: 'This machine cannot enforce a rule of `isolation`.',
    fix: 'The message names the rule and the reason. Run `npx nacre doctor`, change the rule, or set `bestEffort`.',
  },
  CHECKPOINT_NOT_FOUND: {
    cause:
      'The checkpoint was deleted, or it is from before a commit. For `undo`: no command has an automatic checkpoint.',
    fix: '`sandbox.checkpoints()` lists those that exist. `undo` needs the option `undoSteps` of the workspace.',
  },
  ROLLED_BACK: {
    cause: '`sandbox.rollback` was called while the call ran or waited.',
    fix: 'Nothing of the call is left in the sandbox. Make it again if it is still wanted.',
  },
  WORKSPACE_BUSY: {
    cause:
      "Background processes run, and they cannot be stopped for the moment: there is no control group for the session. With `busy: 'reject'`: programs use the workspace.",
    fix: "The message names them. End them, allow control groups (see `npx nacre doctor`), or use `busy: 'copy'`.",
  },
  WORKSPACE_CONFLICT: {
    cause:
      'Other programs have changed, in the real directory, what a commit would overwrite. Nothing was applied.',
    fix: '`error.paths` names the paths. Commit others, discard these, or overwrite them with `force`.',
  },
  WORKSPACE_IN_USE: {
    cause:
      'Another sandbox has the workspace of this name open, programs of a dead one still use it, or forks use its layers.',
    fix: 'Destroy the other sandbox or the forks, or choose another name.',
  },
  WORKSPACE_LOST: {
    cause:
      'The layers of the named workspace cannot be trusted: the machine stopped while it was open, files are missing or damaged, or its directory is another one now.',
    fix: 'The message names the reason. Delete it with `workspace.delete(id)` or `npx nacre workspace rm`, and begin again.',
  },
  WORKSPACE_NOT_ENABLED: {
    cause: 'The sandbox writes to the real files.',
    fix: "Create it with `workspace: 'copy-on-write'`.",
  },
  WORKSPACE_UNSUPPORTED: {
    cause:
      'This machine or this directory allows no copy-on-write workspace, another version of nacre has made the named one, or `fork` was called over HTTP.',
    fix: 'The message names the reason. Run `npx nacre doctor`, choose another directory, or use the other version.',
  },
  IS_A_DIRECTORY: {
    cause: 'The path names a directory, and the call needs a file.',
    fix: 'Name a file, or set `recursive`.',
  },
  JOB_ALREADY_EXISTS: {
    cause: 'A job with this id exists or is starting.',
    fix: 'Use another id, or omit it.',
  },
  JOB_NOT_FOUND: {
    cause: 'No job has this id, or the files of the job are damaged.',
    fix: 'Check `jobsRoot` and `jobs.list()`. If a file is damaged, the message names it.',
  },
  JOB_RUNNING: {
    cause:
      'The job is still running, so it cannot be removed. Or another package started it, so it cannot be cancelled.',
    fix: 'Cancel it before you remove it. A job of another package is cancelled with that package.',
  },
  LIMIT_UNSUPPORTED: {
    cause: 'This machine cannot enforce a limit.',
    fix: 'The message names the reason. Delegate control groups, or omit the limit. Nothing has run.',
  },
  NOT_A_DIRECTORY: {
    cause: 'A part of the path that must be a directory is a file.',
    fix: 'Check `error.path`.',
  },
  NO_SPACE: {
    cause: 'The disk or a quota is full. The file keeps its old content.',
    fix: 'Free some space, and repeat the call.',
  },
  OUTPUT_LIMIT: {
    cause: 'The command printed more than `outputLimit` and was killed.',
    fix: 'Raise `outputLimit`, or set `maxBuffer` instead, which bounds what is kept. `error.result` has the output up to the limit.',
  },
  PERMISSION_DENIED: {
    cause: 'The file permissions, a rule of `isolation` or a read-only file system forbid the access.',
    fix: 'Check the owner and mode of the file, and `isolation.filesystem`.',
  },
  PROCESS_ALREADY_EXISTS: {
    cause: 'A process with this id is running, or has ended and is still listed.',
    fix: 'Use another id, or call `cleanupCompletedProcesses()`.',
  },
  PROCESS_EXITED_BEFORE_READY: {
    cause: 'The process ended before its health check or wait succeeded.',
    fix: 'Read `error.logTail`, the last lines of its log.',
  },
  PROCESS_NOT_FOUND: {
    cause: 'No process has this id, or the process was cleaned up.',
    fix: 'Check `listProcesses()`.',
  },
  PROCESS_READY_TIMEOUT: {
    cause: 'A health check or a wait did not succeed in time. A service that is starting is killed.',
    fix: 'Read `error.logTail`. If the process is only slow, raise the timeout.',
  },
  REQUEST_REFUSED: {
    cause: 'The server rejected the request of the client.',
    fix: 'Read the reason in the message. Check the token.',
  },
  SANDBOX_DESTROYED: {
    cause: 'Your program called `destroy()` on the sandbox.',
    fix: 'Create a new sandbox.',
  },
  SANDBOX_LOST: {
    cause:
      'The pod or host of the sandbox ended, was deleted or was replaced. Its processes, its shells and all files outside volumes are lost.',
    fix: 'Read `error.lost`, create a new sandbox, and repeat the calls that are safe to repeat.',
  },
  SANDBOX_NOT_READY: {
    cause: 'A sandbox of a fleet was not ready within `createTimeout`. The fleet has deleted it.',
    fix: 'Read the last condition of the claim in the message. Check the warm pool and its template.',
  },
  SESSION_ALREADY_EXISTS: {
    cause: 'A session with this id exists.',
    fix: 'Call `getSession(id)`, or use another id.',
  },
  SESSION_DESTROYED: {
    cause: 'Your program deleted the session while the call was pending.',
    fix: 'If you still need the session, create it again.',
  },
  SESSION_NOT_FOUND: { cause: 'No session has this id.', fix: 'Call `createSession({ id })`.' },
  SESSION_TERMINATED: {
    cause: '`surviveExit` is false, and the shell of the session has exited.',
    fix: 'Delete the session and create another one.',
  },
  SPAWN_FAILED: {
    cause:
      'bash is missing or older than 4.4, a process could not be started, or its directory did not respond for 5 seconds.',
    fix: 'The message names the reason. Check `capabilities().notes`, and the limits on processes and memory.',
  },
  STATE_DIR_UNAVAILABLE: {
    cause: '`stateDir` or `jobsRoot` cannot be created or written, or other users can change its files.',
    fix: 'Use a directory that belongs to this user and that no other user can write.',
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
    fix: 'Correct the option. The message names it and its bounds.',
  },
  STREAM_LOCKED: {
    cause: 'The stream already has a reader, or its output was dropped because `result` was awaited first.',
    fix: 'Read a stream only once, and start reading before you await `result`, or use the output in the result.',
  },
}

const ADDON: Record<AddonErrorCode, ErrorDoc> = {
  ADDON_MISSING: {
    cause: 'The platform package is not installed, or your clone of the repository is not built.',
    fix: 'Install again on this machine, with optional dependencies. In a clone, run `npm run setup`.',
  },
  ADDON_NOT_EXECUTABLE: {
    cause: 'The file of the supervisor is not executable, or its file system is mounted with noexec.',
    fix: 'Install again, or move `node_modules` or `TMPDIR` to a file system that allows execution.',
  },
  ADDON_NOT_LOADABLE: {
    cause: 'The addon is damaged, or the C library is too old for it.',
    fix: 'Read the reason in the message, and install again.',
  },
  ADDON_UNSUPPORTED_NODE: {
    cause: 'Node.js is older than 20.19, or a 22 older than 22.3.',
    fix: 'Install a newer Node.js.',
  },
  ADDON_UNSUPPORTED_PLATFORM: {
    cause: 'nacre runs only on Linux, on x64 and arm64.',
    fix: 'Use a container, a virtual machine or WSL 2.',
  },
  ADDON_WRONG_ARCHITECTURE: {
    cause: '`node_modules` was installed for another processor.',
    fix: 'Remove `node_modules` and install again on this machine.',
  },
  ADDON_WRONG_LIBC: {
    cause: '`node_modules` was installed for another C library (glibc or musl).',
    fix: 'Remove `node_modules` and install again on this machine.',
  },
  ADDON_WRONG_VERSION: {
    cause: 'The platform package and `nacre` have different versions.',
    fix: 'Remove `node_modules` and install again.',
  },
}

const HEAD = `# Errors

<!-- \`npm run docs:options\` writes this page from lib/protocol/error-docs.ts. -->

Look up an error by its \`code\` to find its cause and its fix. For a problem without an error code, see
[Troubleshooting](troubleshooting.md).

\`\`\`js run
import { Sandbox } from 'nacre'

const sandbox = new Sandbox()
await sandbox.exec('sleep 60', { timeout: 100 }).catch((error) => console.log(error.name, error.code))
// prints: SandboxError COMMAND_TIMEOUT
await sandbox.destroy()
\`\`\`
`

/** The whole page. */
export function errorsPage(): string {
  return [
    HEAD,
    section('Errors at run time', 'The class is `SandboxError`; for ABORT_ERR it is `AbortError`.', RUN),
    section(
      'Invalid arguments',
      'The class is `OptionError`, a subclass of `TypeError`. Nothing has run.',
      ARGUMENT,
    ),
    section(
      'Errors of the native addon',
      'The class is `AddonError`. nacre cannot load its addon, so every call that needs it rejects.',
      ADDON,
    ),
  ].join('\n')
}

function section(title: string, about: string, docs: Record<string, ErrorDoc>): string {
  const entries = Object.entries(docs).map(
    ([code, { cause, fix }]) => `### ${code}\n\n- **Cause:** ${cause}\n- **Fix:** ${fix}\n`,
  )
  return `## ${title}\n\n${about}\n\n${entries.join('\n')}`
}
