/** Programs in namespaces of their own: as PID 1, as in a container, or with a disk of their own. */
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

/** Words in front of a command that then has a file system of 4 MiB at `directory`, and a mount namespace of its own. */
export function withSmallDisk(directory: string): string[] {
  const script = `mount -t tmpfs -o size=4m,mode=700 none '${directory}' && exec "$@"`
  return ['unshare', '--mount', '--map-root-user', 'sh', '-c', script, 'sh']
}
