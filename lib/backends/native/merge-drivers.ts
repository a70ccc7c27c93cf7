/**
 * Runs merge drivers of git's configuration in a merged sandbox, each as a process of a session that ends afterwards: what they work
 * with comes from programs.
 */
import { refuseAborted } from '../../base/abort.js'
import type { NativeDriverRun, NativeMerged } from '../../boundary/index.js'
import type { MergeConflict, Sandbox, Session } from '../../calls/index.js'

/** Time limit of a driver for a file. */
const LIMIT_MS = 60_000
/** Maximum bytes of a result. */
const MAX_BYTES = 512 * 1024 * 1024
/** Maximum bytes of the output that a conflict has. */
const OUTPUT_BYTES = 2000

const decoder = new TextDecoder()

/** Returns what the drivers could not merge, in the order of the runs. */
export async function runDrivers(
  sandbox: Sandbox,
  { pending, directory }: NativeMerged,
  signal: AbortSignal | undefined,
): Promise<MergeConflict[]> {
  if (pending.length === 0) return []
  const session = await sandbox.createSession({ cwd: directory })
  try {
    const conflicts: MergeConflict[] = []
    for (const run of pending) {
      const driver = await outcome(session, run, signal)
      refuseAborted(signal, 'the merge')
      if (driver === undefined) continue
      const [path, { sides }] = [decoder.decode(run.path), run]
      conflicts.push({ path, reason: 'driver', sides, hunks: [], driver })
    }
    const left = pending.flatMap(({ result, versions }) => [result, ...versions])
    // There may be more names than a command line takes.
    const cleaning = await session.startProcess('xargs -r rm -rf --', { input: left.join(' '), logLimit: 0 })
    await cleaning.waitForExit()
    return conflicts
  } finally {
    await sandbox.deleteSession(session.id)
    // It has had no others.
    await sandbox.cleanupCompletedProcesses()
  }
}

/** How a driver has failed; undefined if it has merged the file. */
async function outcome(
  session: Session,
  run: NativeDriverRun,
  signal: AbortSignal | undefined,
): Promise<MergeConflict['driver']> {
  const process = await session.startProcess(script(run), {
    timeout: LIMIT_MS,
    killSignal: 'SIGKILL',
    logLimit: OUTPUT_BYTES,
    mergeOutput: true,
    ...(signal && { signal }),
  })
  const { exitCode } = await process.waitForExit()
  if (exitCode === 0) return undefined
  return { name: run.driver, exitCode, output: (await process.getLogs()).stdout }
}

/** As in git, the driver finds the file under another name, and a result with an exit code above 128 does not count. */
function script({ path, command, result }: NativeDriverRun): string {
  return `fail() { echo "nacre: $1" >&2; exit 255; }
file=./${quoted(path)} result=./${result}
[[ -f $file && ! -L $file ]] || fail 'the file is no longer there'
mode=$(stat -c %a "$file") && cp -p "$file" "$result" && chmod u+rw "$result" || fail 'the file cannot be copied'
sh -c ${quoted(command)} </dev/null
code=$?
((code <= 128)) || exit "$code"
[[ -f $result && ! -L $result ]] || fail 'the driver has left no result'
(($(stat -c %s "$result") <= ${MAX_BYTES})) || fail 'the result has more than 512 MiB'
chmod "$mode" "$result" && mv -fT "$result" "$file" || fail 'the result cannot replace the file'
exit "$code"`
}

/** Any bytes as a word for bash. */
function quoted(bytes: Uint8Array): string {
  const isPlain = (byte: number) => byte >= 0x20 && byte < 0x7f && byte !== 0x27 && byte !== 0x5c
  const escaped = (byte: number) =>
    isPlain(byte) ? String.fromCharCode(byte) : `\\${byte.toString(8).padStart(3, '0')}`
  return `$'${Array.from(bytes, escaped).join('')}'`
}
