/** The set-up of a container: a command that root runs in it once, before its first client may use it. */
import { refuseAborted } from '../base/abort.js'
import { call } from './call.js'
import { INSIDE } from './enter.js'
import type { Engine } from './find.js'

/** Milliseconds that a set-up may take: it may compile what it installs. */
const SETUP_MS = 60 * 60_000
/** The variable with the command. Its value is on no command line, which all users can see. */
const COMMAND = 'NACRE_SETUP'
/** Where the container keeps that it was set up, and what the command has printed. */
const STATE = '/var/lib/nacre/setup'

const FAILED = 74
const INTERRUPTED = 75

/**
 * The script that each client runs as root. One of them runs the command, and the others wait for it.
 *
 *   setup STATE CWD
 */
export const setup = `#!/bin/bash
set -u
state=$1 cwd=$2
# The time of its start tells a process from a later one with the same id.
started() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }

# What it prints is for root.
mkdir -p -m 700 "$state"
# A client that ended with an earlier start of the container may have had the same id, and this file be its owner.
rm -f "$state/owner.$$"
echo "$$ $(started $$)" >"$state/owner.$$"
if ln "$state/owner.$$" "$state/owner" 2>/dev/null; then
  code=0
  (cd "$cwd" && HOME=/root exec bash -c "$${COMMAND}") >"$state/log" 2>&1 </dev/null || code=$?
  echo $code >"$state/code.$$"
  mv "$state/code.$$" "$state/code"
fi
rm -f "$state/owner.$$"
until [ -e "$state/code" ]; do
  read -r pid time <"$state/owner" || exit ${INTERRUPTED}
  [ "$(started "$pid")" = "$time" ] || [ -e "$state/code" ] || exit ${INTERRUPTED}
  sleep 0.2
done
code=$(cat "$state/code")
[ "$code" = 0 ] && exit
{ echo "exit code $code"; tail -c 2000 "$state/log"; } >&2
exit ${FAILED}
`

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
  const words = ['exec', '--user', '0:0', '--env', COMMAND, name, 'bash', `${INSIDE}/setup`, STATE, cwd]
  const env = { ...engine.env, [COMMAND]: command }
  const { isOk, exitCode, isLate, stderr } = await call(engine.file, words, {
    env,
    timeout: SETUP_MS,
    signal,
  })
  refuseAborted(signal, 'opening the sandbox')
  const kind = exitCode === FAILED || isLate ? 'failed' : exitCode === INTERRUPTED ? 'interrupted' : 'lost'
  return { kind: isOk ? 'done' : kind, output: stderr }
}
