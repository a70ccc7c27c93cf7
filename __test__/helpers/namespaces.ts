/** Programs as PID 1 of a pid namespace of their own, as in a container. */
import { spawnSync } from 'node:child_process'

/** A new pid namespace with its own /proc; `-U -r` makes one where only root may. */
const wrappers = [
  ['unshare', '-p', '-f', '--mount-proc', '--kill-child'],
  ['unshare', '-U', '-r', '-p', '-f', '--mount-proc', '--kill-child'],
]

/** The command that a command line is appended to; undefined on a machine that allows no namespaces. */
export const asInit = wrappers.find(
  ([program = '', ...rest]) => spawnSync(program, [...rest, 'true']).status === 0,
)
