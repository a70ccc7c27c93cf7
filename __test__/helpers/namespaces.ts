/** Programs in separate namespaces: as PID 1, as in a container, or with their own disk. */
import { spawnSync } from 'node:child_process'

/** A new pid namespace with its own /proc; `-U -r` creates it even if only root may. */
const wrappers = [
  ['unshare', '-p', '-f', '--mount-proc', '--kill-child'],
  ['unshare', '-U', '-r', '-p', '-f', '--mount-proc', '--kill-child'],
]

/** The command that a command line is appended to; undefined if the machine allows no namespaces. */
export const asInit = wrappers.find(
  ([program = '', ...rest]) => spawnSync(program, [...rest, 'true']).status === 0,
)

/** The first words of a command that gets a 4 MiB file system at `directory`, in its own mount namespace. */
export function withSmallDisk(directory: string): string[] {
  const script = `mount -t tmpfs -o size=4m,mode=700 none '${directory}' && exec "$@"`
  return ['unshare', '--mount', '--map-root-user', 'sh', '-c', script, 'sh']
}

/** The first words of a command that finds the hosts of `file` instead of those in `/etc/hosts`, in its own mount namespace. */
export function withHosts(file: string): string[] {
  const script = `mount --bind '${file}' /etc/hosts && exec "$@"`
  const mapped = process.getuid?.() === 0 ? [] : ['--map-root-user']
  return ['unshare', '--mount', ...mapped, 'sh', '-c', script, 'sh']
}

/** The first words of a command that sees each first path at the second one as well, in its own mount namespace. */
export function withBinds(...binds: [source: string, target: string][]): string[] {
  const script = binds.map(([source, target]) => `mount --bind '${source}' '${target}' && `).join('')
  const mapped = process.getuid?.() === 0 ? [] : ['--map-current-user', '--keep-caps']
  return ['unshare', '--mount', ...mapped, 'sh', '-c', `${script}exec "$@"`, 'sh']
}

/** The first words of a command that gets no instance of inotify(7), as if other programs used them all. */
export const withoutInotify = [
  ...['unshare', '--map-root-user', 'sh', '-c'],
  'echo 0 >/proc/sys/user/max_inotify_instances && exec "$@"',
  'sh',
]

/** Whether withHungDirectory works here: on some machines only root may use FUSE. */
export const canHang = spawnSync('bash', ['-c', 'exec 9<>/dev/fuse'], { stdio: 'ignore' }).status === 0

/**
 * The first words of a command that gets a file system at `directory` that never responds, in its own mount namespace: FUSE
 * without a server, like a network file system whose server is down.
 */
export function withHungDirectory(directory: string): string[] {
  const mount = `mount -i -t fuse -o fd=9,rootmode=40000,user_id=0,group_id=0 none '${directory}'`
  return [
    'unshare',
    '--mount',
    '--map-root-user',
    'bash',
    '-c',
    `exec 9<>/dev/fuse; ${mount} && exec "$@"`,
    'bash',
  ]
}
