/** Attempts to leave a program behind that gives its users the rights of the host's user. */
import { type Attempt, number, proven, x64 } from './attempt.js'

const CREATE = 0o101
const TEMPORARY = 0o20000001 | (x64 ? 0o200000 : 0o40000)

/** Creates `t` in perl; prints ESCAPED if it, or what is open as T, has a set-ID bit. */
const create = (name: string, script: string): Attempt =>
  proven(
    `makes a set-user-ID file with ${name}`,
    `perl -e 'umask 0; ($d, $t) = (".", "t"); ${script}; print "ESCAPED" if -u "t" || -u T'`,
  )

export const modes: Attempt[] = [
  proven('makes a set-user-ID program', 'cp /bin/true t && chmod 4755 t && [ -u t ] && echo ESCAPED'),
  proven('makes a set-group-ID program', 'cp /bin/true t && chmod g+s t && [ -g t ] && echo ESCAPED'),
  proven('installs a set-user-ID program', 'install -m 4755 /bin/true t; [ -u t ] && echo ESCAPED'),
  proven(
    'unpacks a set-user-ID program',
    'cp /bin/true t && tar --mode=4755 -cf a t && rm t && tar -xpf a; [ -u t ] && echo ESCAPED',
  ),
  create('open', `syscall(${number('openat')}, -100, $t, ${CREATE}, 04755)`),
  create('mknod', `syscall(${number('mknodat')}, -100, $t, 0104755, 0)`),
  create(
    'openat2',
    `$how = pack("Q3", ${CREATE}, 04755, 0); syscall(${number('openat2')}, -100, $t, $how, 24)`,
  ),
  create('fchmod', 'open T, ">", "t"; chmod 04755, *T'),
  create(
    'chmod and bits that the kernel ignores',
    `open T, ">", "t"; syscall(${number('fchmodat')}, -100, $t, 1 << 32 | 1 << 16 | 04755)`,
  ),
  create('fchmodat2', `open T, ">", "t"; syscall(${number('fchmodat2')}, -100, $t, 04755, 0)`),
  create(
    'O_TMPFILE',
    `$n = syscall(${number('openat')}, -100, $d, ${TEMPORARY}, 04755); open T, ">&=", $n if $n >= 0`,
  ),
  ...(x64
    ? [
        create('creat', 'syscall(85, $t, 04755)'),
        create('open(2) of x86-64', `syscall(2, $t, ${CREATE}, 04755)`),
        create('mknod(2) of x86-64', 'syscall(133, $t, 0104755, 0)'),
        create('chmod(2) of x86-64', 'open T, ">", "t"; syscall(90, $t, 04755)'),
      ]
    : []),
]
