/** Compiled, never run: what the public types allow and refuse, and what they infer. */
import {
  type AbortError,
  type ExecOptions,
  type ExecResult,
  OptionError,
  Sandbox,
  SandboxError,
  type Session,
} from 'nacre'

/** Compiles only when both types are the same. */
function same<A, B>(..._proof: [A] extends [B] ? ([B] extends [A] ? [] : [never]) : [never]): void {}

export async function results(
  sandbox: Sandbox,
  options: ExecOptions,
  either: ExecOptions<'utf8' | 'buffer'>,
) {
  const text = await sandbox.exec('ls')
  same<typeof text, ExecResult>()
  same<typeof text.stdout, string>()
  same<typeof text.signal, NodeJS.Signals | null>()
  same<typeof text.truncated, null | { stdout: number; stderr: number }>()
  const bytes = await sandbox.exec(['ls', '-l'] as const, { encoding: 'buffer', timeout: 5 })
  same<typeof bytes.all, Uint8Array>()
  const given = await sandbox.exec('ls', options)
  same<typeof given.stderr, string>()
  const unknown = await sandbox.exec('ls', either)
  same<typeof unknown.stdout, string | Uint8Array>()
}

export async function options(sandbox: Sandbox, session: Session) {
  const signal = new AbortController().signal
  await sandbox.exec('x', {
    cwd: new URL('file:///'),
    env: { A: undefined },
    signal,
    killSignal: 'SIGINT',
    sessionId: 'a',
  })
  await sandbox.exec('x', { killSignal: 34, input: new Blob(['x']).stream(), check: true, maxBuffer: 0 })
  await sandbox.exec('x', { onOutput: (stream, data) => same<typeof stream | typeof data, string>() })
  await sandbox.exec('x', {
    encoding: 'buffer',
    onComplete: (result) => same<typeof result.stdout, Uint8Array>(),
  })
  // @ts-expect-error: an unknown option
  await sandbox.exec('x', { timeOut: 5 })
  // @ts-expect-error: not a number of milliseconds
  await sandbox.exec('x', { timeout: '5s' })
  // @ts-expect-error: not a signal
  await sandbox.exec('x', { killSignal: 'SIGFOO' })
  // @ts-expect-error: not an encoding
  await sandbox.exec('x', { encoding: 'latin1' })
  // @ts-expect-error: values are strings
  await sandbox.exec('x', { env: { A: 1 } })
  // @ts-expect-error: a session's exec has its session
  await session.exec('x', { sessionId: 'a' })
  // @ts-expect-error: no command
  await sandbox.exec()
  // @ts-expect-error: arguments are strings
  await sandbox.exec(['sleep', 5])
}

export async function lifetimes() {
  await using sandbox = new Sandbox({ cwd: '/tmp', logger: console })
  await using session = await sandbox.createSession({ id: 'a', env: { A: 'x' } })
  await session.setEnvVars({ A: undefined })
  same<Awaited<ReturnType<typeof sandbox.getSession>>, Session | null>()
  same<Awaited<ReturnType<typeof sandbox.listSessions>>, Session[]>()
  // @ts-expect-error: an id does not change
  session.id = 'b'
}

export function errors(error: unknown) {
  if (error instanceof SandboxError && error.code === 'COMMAND_TIMEOUT')
    same<typeof error.result, ExecResult<'utf8' | 'buffer'> | undefined>()
  if (error instanceof OptionError) {
    const wider: TypeError = error
    // @ts-expect-error: codes of the two classes are apart
    return wider instanceof OptionError && error.code === 'COMMAND_TIMEOUT'
  }
  return (error as AbortError).code === 'ABORT_ERR'
}
