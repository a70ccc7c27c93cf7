/** The processes of a session: its shell, its standby and their supervisor. */
import type { Workplace } from './invariants.js'
import * as proc from './proc.js'
import { holds, until } from './until.js'

export interface Pids {
  shell: number
  supervisor: number
  standby: number
}

/**
 * Prints the pids of everything below the shell, then of the supervisor's children. In this order: an older standby may
 * just be on its way from the one to the other, as its parent ends.
 */
const list = `
  below() { local pid; for pid in $(</proc/$1/task/$1/children); do below $pid; echo $pid; done 2>/dev/null; }
  below $$; unset -f below; echo $(</proc/$PPID/task/$PPID/children)
`

/** Runs a text and waits until there is a standby that was forked after it, and the shell has reported it. */
export async function prepare({ sandbox }: Workplace, text: string): Promise<Pids> {
  const { stdout } = await sandbox.exec(`echo $$ $PPID; ${list}\n${text}`)
  const [shell = 0, supervisor = 0, ...older] = stdout.split(/\s+/).map(Number)
  const isStandby = (pid: number) => !older.includes(pid) && proc.isReceiving(pid)
  const standby = await until(
    () => proc.children(supervisor).find(isStandby),
    () => `no standby was forked: ${proc.descendants(supervisor).map(proc.show)}`,
  )
  await holds(() => proc.isReceiving(shell))
  // The session answers in order: it has read that report.
  await (await sandbox.getSession('default'))?.running()
  return { shell, supervisor, standby }
}

/**
 * Kills a process and comes back in the very moment in which it, and those that die with it, are dead, without a turn of
 * the event loop: the engine cannot have heard of it yet.
 */
export function killAtOnce(pid: number, ...others: number[]): void {
  proc.kill(pid)
  const deadline = performance.now() + 10_000
  while ([pid, ...others].some(proc.isAlive)) {
    if (performance.now() > deadline) throw new Error(`${pid} lives on`)
  }
}
