/** Processes of a virtual machine on the machine. */
import { readdirSync, readFileSync } from 'node:fs'

/** A process, and when it started, since numbers are used again. */
export interface Known {
  pid: number
  start: string
  name: string
}

export function look(pid: number): (Known & { parent: number; state: string }) | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const end = text.lastIndexOf(')')
    const fields = text.slice(end + 2).split(' ')
    const [state = '', parent = ''] = fields
    return {
      pid,
      name: text.slice(text.indexOf('(') + 1, end),
      state,
      parent: Number(parent),
      start: fields[19] ?? '',
    }
  } catch {
    return undefined
  }
}

/** A process and everything below it. */
export function descendants(top: number): Known[] {
  const all = readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? (look(Number(name)) ?? []) : []))
  const found = all.filter(({ pid }) => pid === top)
  for (const one of found) found.push(...all.filter(({ parent }) => parent === one.pid))
  return found
}

/** The command line of a process. */
export function commandOf({ pid }: Known): string {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ')
}

export function isAlive({ pid, start }: Known): boolean {
  const now = look(pid)
  return now !== undefined && now.start === start && now.state !== 'Z'
}
