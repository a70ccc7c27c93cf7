/** The set-up of a container: a command that root runs in it once, before its first client may use it. */
import { refuseAborted } from '../base/abort.js'
import { call } from './call.js'
import { SUPERVISOR } from './enter.js'
import type { Engine } from './find.js'

/** Milliseconds that a set-up may take: it may compile what it installs. */
const SETUP_MS = 60 * 60_000
/** The variable with the command. Its value is on no command line, which all users can see. */
const COMMAND = 'NACRE_SETUP'
/** Where the container keeps that it was set up, and what the command has printed. */
const STATE = '/var/lib/nacre/setup'

/** The exit codes of `nacre-supervisor --set-up`: crates/supervisor/src/set_up.rs. */
const FAILED = 74
const INTERRUPTED = 75

export interface SetupPlan {
  /** The command, as shell text. */
  command: string
  cwd: string
  signal: AbortSignal | undefined
}

/** How a set-up ended. 'interrupted': it will never be complete. 'lost': the engine could not run it. */
export interface SetupEnd {
  kind: 'done' | 'failed' | 'interrupted' | 'lost'
  /** What was printed, for a message. */
  output: string
}

/** Runs the command in a running container, unless another client does or has. Rejects with AbortError. */
export async function runSetup(engine: Engine, name: string, plan: SetupPlan): Promise<SetupEnd> {
  const { command, cwd, signal } = plan
  const words = ['exec', '--interactive', '--user', '0:0', '--env', COMMAND, name]
  const { isOk, exitCode, isLate, stderr } = await call(
    engine.file,
    [...words, SUPERVISOR, '--set-up', STATE, cwd],
    { env: { ...engine.env, [COMMAND]: command }, timeout: SETUP_MS, signal, hasLifeline: true },
  )
  refuseAborted(signal, 'opening the sandbox')
  const kind = exitCode === FAILED || isLate ? 'failed' : exitCode === INTERRUPTED ? 'interrupted' : 'lost'
  return { kind: isOk ? 'done' : kind, output: stderr }
}
