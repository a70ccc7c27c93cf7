/** Compiled, never run: what the types of nacre/container allow and refuse. */
import {
  createSessionClass,
  type ExecEvent,
  type RawExecResult,
  Session,
  SessionDestroyedError,
  type SessionOptions,
  ShellTerminatedError,
} from 'nacre/container'

class Ended extends Error {
  constructor(
    readonly id: string,
    readonly code: number | null,
  ) {
    super()
  }
}

export async function sessions(options: SessionOptions): Promise<RawExecResult> {
  const Own = createSessionClass({ ShellTerminatedError: Ended })
  const session: Session = new Own(options)
  session.pty = { any: 'thing' }
  await session.initialize()
  for await (const event of session.execStream('ls', { commandId: 'a', timeoutMs: 5 })) show(event)
  const killed: boolean = await session.killCommand('a', false)
  const code: number | null = killed ? session.getShellExitCode() : null
  return session.exec('ls', { env: { A: undefined, B: null, C: `${code}` }, origin: 'internal' })
}

function show(event: ExecEvent): string | number {
  switch (event.type) {
    case 'start':
      return event.pid ?? 0
    case 'stdout':
    case 'stderr':
      return event.data
    case 'complete':
      return event.result.success ? event.exitCode : event.result.duration
    case 'error':
      return event.error
  }
}

// @ts-expect-error: a session has an id
new Session({})
// @ts-expect-error: an option of nacre's own session
new Session({ id: 'a', timeout: 5 })
declare const OfTexts: new (id: string, when: Date) => Error
// @ts-expect-error: made from an id and a code
createSessionClass({ ShellTerminatedError: OfTexts })

export const errors: Error[] = [new ShellTerminatedError('a', null), new SessionDestroyedError('a')]
