/** Compiled, never run: members that `@cloudflare/sandbox` has too fit its types. */
import type {
  ExecOptions,
  ExecResult,
  LogMatch,
  Process,
  ProcessOptions,
  ProcessStatus,
  WaitForPortOptions,
} from 'nacre'
import type * as theirs from './cloudflare-sandbox.js'

/** Compiles only when both types are the same. */
function same<A, B>(..._proof: [A] extends [B] ? ([B] extends [A] ? [] : [never]) : [never]): void {}

/** The members that both have, of which the first does not fit the second. */
type Unlike<From, To> = {
  [K in keyof From & keyof To]-?: Pick<From, K> extends Pick<To, K> ? never : K
}[keyof From & keyof To]

export function processes() {
  // A signal leaves no exit code, and kill says whether it has killed something.
  same<Unlike<Process, theirs.Process>, 'exitCode' | 'waitForExit' | 'kill'>()
  same<Exclude<keyof theirs.Process, keyof Process>, never>()
  same<ProcessStatus, theirs.Status>()
  same<Unlike<LogMatch, theirs.LogMatch>, never>()
}

export function results() {
  same<Unlike<ExecResult, theirs.ExecResult>, 'exitCode'>()
  same<Exclude<keyof theirs.ExecResult, keyof ExecResult>, never>()
}

/** Options go the other way: those for the other SDK are also options for nacre. */
export function options() {
  // Their callback has no null as exit code, and errors of the caller's own functions can be any value.
  same<Unlike<theirs.ExecOptions, ExecOptions>, 'onComplete' | 'onError' | 'encoding'>()
  same<Unlike<theirs.ProcessOptions, ProcessOptions>, 'onStart' | 'onError'>()
  // Callbacks are called without a switch, and output of processes is text or bytes where it is read.
  same<Exclude<keyof theirs.ExecOptions, keyof ExecOptions>, 'stream' | 'origin'>()
  same<Exclude<keyof theirs.ProcessOptions, keyof ProcessOptions>, 'encoding'>()
  same<Unlike<theirs.PortOptions, WaitForPortOptions>, never>()
  // Only these take or give more than theirs.
  same<Unlike<ExecOptions, theirs.ExecOptions>, 'cwd' | 'onComplete'>()
}
