/** Attempts to reach other processes. */
import { type Attempt, number, proven, unproven } from './attempt.js'

export const processes: Attempt[] = [
  proven('signals a process of the same user', 'kill -0 "$VICTIM" && echo ESCAPED'),
  proven('kills the host', 'kill -0 "$HOST" && echo ESCAPED'),
  proven(
    'signals its supervisor',
    'p=$(awk "/^PPid/{print \\$2}" /proc/$$/status); [ "$p" -gt 1 ] && kill -0 "$p" && echo ESCAPED',
  ),
  unproven('signals every process', 'env kill -0 -1 2>/dev/null && kill -0 "$VICTIM" && echo ESCAPED'),
  proven('reads the environment of another process', 'tr "\\0" "\\n" < "/proc/$VICTIM/environ"'),
  proven(
    'finds a secret in any environment',
    'cat /proc/[0-9]*/environ 2>/dev/null | tr "\\0" "\\n" | grep ^VICTIM_SECRET=',
  ),
  proven('reads System V shared memory of the machine', "perl -e 'print $b if shmread($ENV{SHM}, $b, 0, 7)'"),
  proven('reads the memory of another process', 'head -c 0 "/proc/$VICTIM/mem" && echo ESCAPED'),
  proven('opens a descriptor of another process', 'cat "/proc/$VICTIM/fd/9"'),
  proven(
    'opens the root of another process',
    'ls "/proc/$VICTIM/root/" >/dev/null && echo x > "/proc/$VICTIM/root$OUT/new" && echo ESCAPED',
  ),
  proven('opens the directory of another process', 'echo x > "/proc/$VICTIM/cwd/new" && echo ESCAPED'),
  proven('changes the priority of another process', 'renice -n 19 -p "$VICTIM" >/dev/null && echo ESCAPED'),
  proven('changes the limits of another process', 'prlimit --pid "$VICTIM" --core=0 && echo ESCAPED'),
  proven('changes the limits of the host', 'prlimit --pid "$HOST" --core=0 && echo ESCAPED'),
  proven(
    'changes the limits of its supervisor',
    '[ "$PPID" -gt 0 ] && prlimit --pid "$PPID" --core=0 && echo ESCAPED',
  ),
  proven(
    'changes limits with a pointer whose low half is 0',
    `perl -e '$at = syscall(${number('mmap')}, 0x7e0100000000, 4096, 3, 0x32, -1, 0); print "ESCAPED" if $at == 0x7e0100000000 && syscall(${number('prlimit64')}, 0 + $ENV{VICTIM}, 4, $at, 0) == 0'`,
  ),
  proven(
    'changes limits with a pid beyond what the kernel reads',
    `perl -e '$limits = pack("Q2", 0, 0); print "ESCAPED" if syscall(${number('prlimit64')}, 1 << 32 | $ENV{VICTIM}, 4, $limits, 0) == 0'`,
  ),
  proven('changes the processors of another process', 'taskset -p 1 "$VICTIM" >/dev/null && echo ESCAPED'),
  proven('changes the scheduler of another process', 'chrt --batch -p 0 "$VICTIM" && echo ESCAPED'),
  proven('changes the io priority of another process', 'ionice -c 3 -p "$VICTIM" && echo ESCAPED'),
  ...[
    // Without isolation, these would reach processes of the tests.
    { title: 'group of another process', target: '1, getpgrp($ENV{VICTIM})', works: false },
    { title: 'user', target: '2, $<', works: false },
  ].map(({ title, target, works }) => ({
    name: `changes the priority of the ${title}`,
    // The call also succeeds if it reaches nothing but the caller.
    command: `perl -e '$before = getpriority(0, $ENV{VICTIM}); setpriority(${target}, $before + 1); print "ESCAPED" if $before < 19 && getpriority(0, $ENV{VICTIM}) > $before'`,
    works,
  })),
  ...[
    { title: 'writes the memory', script: 'open M, "+<", "/proc/$ARGV[0]/mem" and print "ESCAPED"' },
    {
      title: 'copies a descriptor',
      script: `$shell = syscall(${number('pidfd_open')}, 0 + $ARGV[0], 0); $copy = syscall(${number('pidfd_getfd')}, $shell, $_, 0), $copy >= 0 && print "ESCAPED" for 0 .. 300`,
    },
    {
      title: 'traces',
      script: `print "ESCAPED" if syscall(${number('ptrace')}, 16, 0 + $ARGV[0], 0, 0) == 0`,
    },
    {
      title: 'opens a descriptor',
      script: 'readlink "/proc/$ARGV[0]/fd/0" and print "ESCAPED"',
      mounts: true,
    },
    {
      title: 'reads the memory',
      script: 'open M, "<", "/proc/$ARGV[0]/mem" and print "ESCAPED"',
      mounts: true,
    },
  ].map(
    ({ title, script, mounts }): Attempt => ({
      name: `${title} of the session's shell`,
      command: `perl -e '${script}' $$`,
      works: false,
      onlyInSessions: true,
      ...(mounts && { needs: 'mounts' }),
    }),
  ),
  proven(
    'creates namespaces with clone3',
    `perl -e '$flags = pack("Q8", 0x50000000, 0, 0, 0, 17, 0, 0, 0); $child = syscall(${number('clone3')}, $flags, 64, 0); exit if $child == 0; print "ESCAPED" if $child > 0'`,
  ),
  proven('reads the command line of the host', '[ -r "/proc/$HOST/cmdline" ] && echo ESCAPED', {
    needs: 'mounts',
  }),
]
