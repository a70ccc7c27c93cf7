/** A virtual machine that is booted ahead: it waits with its server for the next call with the same options. */
import { abortable } from '../base/abort.js'
import { clearTimeout, setTimeout } from '../base/timers.js'
import type { Program } from './program.js'

/** Milliseconds that it waits for that call. */
const PATIENCE_MS = 600_000

/** What makes two machines the same. */
export interface Likeness {
  /** Their settings, and the identities of the files that these name. */
  text: string
  /** Who answers for their network. */
  ask: unknown
}

interface Spare extends Likeness {
  /** undefined if it cannot be started: the call that needs it finds out why. */
  program: Promise<Program | undefined>
  timer: ReturnType<typeof setTimeout>
}

let spare: Spare | undefined

/** Takes the one that is like this. Resolves when its server answers; to undefined if there is none. */
export async function takeSpare(
  likeness: Likeness,
  signal: AbortSignal | undefined,
): Promise<Program | undefined> {
  if (spare === undefined || !isLike(spare, likeness)) return undefined
  const { program: awaited, timer } = spare
  spare = undefined
  // The call keeps this process alive.
  timer.ref()
  try {
    const program = await abortable(awaited, signal, 'opening the sandbox')
    return program?.hasEnded ? undefined : program
  } catch (error) {
    void end(awaited)
    throw error
  } finally {
    clearTimeout(timer)
  }
}

/** Boots one, in place of one that is not like it. Neither the boot nor the machine keeps this process alive. */
export function bootAhead(likeness: Likeness, boot: () => Promise<Program>): void {
  if (spare !== undefined) {
    if (isLike(spare, likeness)) return
    clearTimeout(spare.timer)
    void end(spare.program)
  }
  const program = boot().catch(() => undefined)
  const made = { ...likeness, program, timer: setTimeout(() => drop(made), PATIENCE_MS) }
  made.timer.unref()
  spare = made
}

function drop(one: Spare): void {
  if (spare === one) spare = undefined
  void end(one.program)
}

async function end(program: Promise<Program | undefined>): Promise<void> {
  await (await program)?.close()
}

function isLike(one: Likeness, other: Likeness): boolean {
  return one.text === other.text && one.ask === other.ask
}
