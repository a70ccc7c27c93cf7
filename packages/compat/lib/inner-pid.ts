/** Numbers of processes in the namespaces of a sandbox. */
import { readFileSync } from 'node:fs'

/** The pid as programs of the sandbox see it: the last one, of the innermost namespace. */
export function innerPid(pid: number): number {
  try {
    const [, pids = ''] = /^NSpid:\s+(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1')) ?? []
    return Number(pids.split(/\s+/).at(-1)) || pid
  } catch {
    // It has just ended.
    return pid
  }
}
