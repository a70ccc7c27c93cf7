/** Attempts to reach other processes. */
import type { Attempt } from './attempt.js'

export const processes: Attempt[] = [
  { name: 'signals a process of the same user', command: 'kill -0 "$VICTIM" && echo ESCAPED', works: true },
  { name: 'kills the host', command: 'kill -0 "$HOST" && echo ESCAPED', works: true },
  {
    name: 'signals its supervisor',
    command: 'p=$(awk "/^PPid/{print \\$2}" /proc/$$/status); [ "$p" -gt 1 ] && kill -0 "$p" && echo ESCAPED',
    works: true,
  },
  {
    name: 'signals every process',
    command: 'env kill -0 -1 2>/dev/null && kill -0 "$VICTIM" && echo ESCAPED',
    works: false,
  },
  {
    name: 'reads the environment of another process',
    command: 'tr "\\0" "\\n" < "/proc/$VICTIM/environ"',
    works: true,
  },
  {
    name: 'finds a secret in any environment',
    command: 'cat /proc/[0-9]*/environ 2>/dev/null | tr "\\0" "\\n" | grep ^VICTIM_SECRET=',
    works: true,
  },
  {
    name: 'reads System V shared memory of the machine',
    command: "perl -e 'print $b if shmread($ENV{SHM}, $b, 0, 7)'",
    works: true,
  },
  {
    name: 'reads the memory of another process',
    command: 'head -c 0 "/proc/$VICTIM/mem" && echo ESCAPED',
    works: true,
  },
  { name: 'opens a descriptor of another process', command: 'cat "/proc/$VICTIM/fd/9"', works: true },
  {
    name: 'opens the root of another process',
    command: 'ls "/proc/$VICTIM/root/" >/dev/null && echo x > "/proc/$VICTIM/root$OUT/new" && echo ESCAPED',
    works: true,
  },
  {
    name: 'opens the directory of another process',
    command: 'echo x > "/proc/$VICTIM/cwd/new" && echo ESCAPED',
    works: true,
  },
  {
    name: 'changes the priority of another process',
    command: 'renice -n 19 -p "$VICTIM" >/dev/null && echo ESCAPED',
    works: true,
    needs: 'mounts',
  },
  {
    name: 'changes the limits of another process',
    command: 'prlimit --pid "$VICTIM" --core=0 && echo ESCAPED',
    works: true,
    needs: 'mounts',
  },
  {
    name: 'reads the command line of the host',
    command: '[ -r "/proc/$HOST/cmdline" ] && echo ESCAPED',
    works: true,
    needs: 'mounts',
  },
]
