/**
 * Attempts to break out of a session, each a command that prints ESCAPED when it succeeds.
 *
 * Variables name the targets: OUT, a directory outside with the file `canary`; SECRET, a hidden file; VICTIM, a process of
 * the same user with ESCAPED in its environment; HOST, this process; PORT and UDP, servers that answer ESCAPED; SOCKET and
 * ABSTRACT, Unix sockets that do; SHM, a System V segment that holds ESCAPED.
 */

export interface Attempt {
  name: string
  command: string
  /** Succeeds without isolation, as an ordinary user, which proves that the attempt works. */
  works: boolean
  /** Only with mount namespaces. */
  needs?: 'mounts'
}

const x64 = process.arch === 'x64'

/** Numbers of system calls, on x86-64 and on arm64. */
const NUMBERS: Record<string, [x64: number, arm64: number]> = {
  unshare: [272, 97],
  setns: [308, 268],
  clone: [56, 220],
  clone3: [435, 435],
  mount: [165, 40],
  umount2: [166, 39],
  pivot_root: [155, 41],
  chroot: [161, 51],
  open_tree: [428, 428],
  fsopen: [430, 430],
  mount_setattr: [442, 442],
  open_by_handle_at: [304, 265],
  bpf: [321, 280],
  keyctl: [250, 219],
  add_key: [248, 217],
  userfaultfd: [323, 282],
  perf_event_open: [298, 241],
  io_uring_setup: [425, 425],
  kexec_load: [246, 104],
  init_module: [175, 105],
  reboot: [169, 142],
  swapon: [167, 224],
  acct: [163, 89],
  ioctl: [16, 29],
  ptrace: [101, 117],
  process_vm_readv: [310, 270],
  pidfd_open: [434, 434],
  pidfd_getfd: [438, 438],
  kill: [62, 129],
  pidfd_send_signal: [424, 424],
  socket: [41, 198],
  socketpair: [53, 199],
  sethostname: [170, 161],
  clock_settime: [227, 112],
  syslog: [103, 116],
  mknodat: [259, 33],
  renameat2: [316, 276],
  fanotify_init: [300, 262],
}

const number = (name: string) => (NUMBERS[name] as [number, number])[x64 ? 0 : 1]

/** A system call that must fail; an errno of `allowed` counts as having been let through to the kernel's own checks. */
function call(name: string, args: string, title = name, letThrough = ''): Attempt {
  const through = letThrough && ` or $! == ${letThrough}`
  const script = `$r = syscall(${number(name)}, ${args}); print "ESCAPED" if $r >= 0${through}; print " $r $!\\n"`
  return { name: `system call ${title}`, command: `perl -e '${script}'`, works: false }
}

const write = (name: string, command: string, needs?: 'mounts'): Attempt => ({
  name,
  command: `${command} && echo ESCAPED`,
  works: true,
  ...(needs && { needs }),
})

const files: Attempt[] = [
  write('writes a file outside', 'echo x > "$OUT/new"'),
  write('appends to a file outside', 'echo x >> "$OUT/canary"'),
  write('truncates a file outside', ': > "$OUT/canary"'),
  write('truncates with truncate(2)', 'truncate -s 0 "$OUT/canary"'),
  write('removes a file outside', 'rm "$OUT/canary"'),
  write('renames a file outside', 'mv "$OUT/canary" "$OUT/moved"'),
  write('moves a file of its own out', 'echo x > mine && mv mine "$OUT/mine"'),
  write('takes a file from outside', 'mv "$OUT/canary" ./taken'),
  write('makes a directory outside', 'mkdir "$OUT/dir"'),
  write('removes a directory outside', 'rmdir "$OUT/empty"'),
  write('makes a link outside', 'ln -s x "$OUT/link"'),
  write('makes a FIFO outside', 'mkfifo "$OUT/fifo"'),
  write('links a file from outside and writes it', 'ln "$OUT/canary" hard && echo x > hard'),
  write('writes through a link', 'ln -s "$OUT/canary" soft && echo x > soft'),
  write('writes below a linked directory', 'ln -s "$OUT" dir && echo x > dir/new'),
  write('writes through two links', 'ln -s "$OUT" a1 && ln -s a1 a2 && echo x > a2/new'),
  write('writes by dots', 'echo x > "$PWD/../outside/new"'),
  write('writes by /proc/self/cwd', 'cd "$OUT" && echo x > /proc/self/cwd/new'),
  write('writes by /proc/self/root', 'echo x > "/proc/self/root$OUT/new"'),
  write('writes through an open directory', 'exec 9< "$OUT" && echo x > /proc/self/fd/9/new'),
  write('opens for reading and writes by /proc/self/fd', 'exec 8< "$OUT/canary" && echo x > /proc/self/fd/8'),
  write('writes with dd', 'dd if=/dev/zero of="$OUT/new" bs=1 count=1 2>/dev/null'),
  write('copies out', 'cp /etc/hostname "$OUT/copy"'),
  write('unpacks out', 'echo x > f && tar cf - f | tar xf - -C "$OUT"'),
  write('writes from a subshell in the background', '(echo x > "$OUT/new") & wait $!'),
  write('writes after a change of directory', 'cd "$OUT" && echo x > new'),
  write(
    'writes with a program of its own',
    'printf \'#!/bin/sh\\necho x > "$OUT/new"\' > p && chmod +x p && ./p',
  ),
  write('writes from a trap at exit', '(trap \'echo x > "$OUT/new"\' EXIT; exit 0); test -e "$OUT/new"'),
  write('writes from a detached process', 'setsid sh -c \'echo x > "$OUT/new"\'; test -e "$OUT/new"'),
  write('writes with here-documents as redirection', 'cat > "$OUT/new" <<< x'),
  write('changes the mode of a file outside', 'chmod 777 "$OUT/canary"', 'mounts'),
  write('changes the times of a file outside', 'touch -d 2001-01-01 "$OUT/canary"', 'mounts'),
  write('sets an attribute on a file outside', 'chgrp "$(id -g)" "$OUT/canary"', 'mounts'),
  write(
    'swaps a directory of its own for a link in time',
    'mkdir s && rmdir s && ln -s "$OUT" s && echo x > s/new',
  ),
  write('writes into the home directory', 'echo x > "$FAKE_HOME/.bashrc"'),
  write('writes to /var/tmp', 'echo x > "/var/tmp/nacre-$$-escape" && rm "/var/tmp/nacre-$$-escape"'),
  { name: 'reads a hidden file', command: 'cat "$SECRET"', works: true },
  { name: 'reads a hidden file by a link', command: 'ln -s "$SECRET" see && cat see', works: true },
  { name: 'reads a hidden file by a hard link', command: 'ln "$SECRET" hard && cat hard', works: true },
  { name: 'reads a hidden file by /proc/self/root', command: 'cat "/proc/self/root$SECRET"', works: true },
  { name: 'reads a hidden file by dots', command: 'cat "$(dirname "$SECRET")/../hidden/key"', works: true },
  {
    name: 'copies a hidden directory',
    command: 'cp -r "$(dirname "$SECRET")" got && cat got/*',
    works: true,
  },
  {
    name: 'moves a hidden directory',
    command: 'mv "$(dirname "$SECRET")" got && cat got/*',
    works: true,
  },
  {
    name: 'lists the names in a hidden directory',
    command: 'ls "$(dirname "$SECRET")" | grep -q key && echo ESCAPED',
    works: true,
  },
  write('writes a protected file', 'echo x > .git/hooks/hook', 'mounts'),
  write('makes a protected file', 'echo x > .git/hooks/post', 'mounts'),
  write('removes a protected file', 'rm -f .git/hooks/hook && ! test -e .git/hooks/hook', 'mounts'),
  write('renames a protected directory', 'mv .git/hooks .git/was && mkdir .git/hooks', 'mounts'),
  write('renames the parent of a protected directory', 'mv .git g && cp -r g .git', 'mounts'),
  write('writes a protected file beside a protected directory', 'echo x > .git/config', 'mounts'),
  write('links git to another directory', 'mv .git g; echo "gitdir: g" > .git', 'mounts'),
  write('makes a file in a hidden directory', ': > "$(dirname "$SECRET")/new"'),
  write('writes to a hidden file', ': >> "$SECRET"'),
  write('links around a protected file', 'ln .git/hooks/hook alias && echo x > alias', 'mounts'),
  write('replaces a protected file by rename', 'echo x > r && mv -f r .git/hooks/hook', 'mounts'),
  write(
    'exchanges the parent of a protected directory',
    `mkdir o && perl -e '($a, $b) = (".git", "o"); exit(syscall(${number('renameat2')}, -100, $a, -100, $b, 2) != 0)'`,
    'mounts',
  ),
]

const machine: Attempt[] = [
  {
    name: 'writes a kernel setting',
    command: 'echo 1 > /proc/sys/kernel/printk && echo ESCAPED',
    works: false,
  },
  {
    name: 'writes the core pattern',
    command: 'cat /proc/sys/kernel/core_pattern > c && cat c > /proc/sys/kernel/core_pattern && echo ESCAPED',
    works: false,
  },
  { name: 'writes sysrq', command: 'echo h > /proc/sysrq-trigger && echo ESCAPED', works: false },
  {
    name: 'writes a control group',
    command: 'mkdir /sys/fs/cgroup/nacre-escape && echo ESCAPED',
    works: false,
  },
  {
    name: 'moves itself to another control group',
    command: 'echo $$ > /sys/fs/cgroup/cgroup.procs && echo ESCAPED',
    works: false,
  },
  { name: 'makes a device', command: 'mknod dev b 254 0 && echo ESCAPED', works: false },
  {
    name: 'reads a disk',
    command:
      'for d in /dev/vda /dev/sda /dev/nvme0n1; do head -c 1 $d; done 2>/dev/null | grep -q . && echo ESCAPED',
    works: false,
  },
  {
    name: 'reads memory',
    command: 'head -c 1 /dev/mem /proc/kcore 2>/dev/null | grep -q . && echo ESCAPED',
    works: false,
  },
  { name: 'mounts a tmpfs', command: 'mount -t tmpfs x . && echo ESCAPED', works: false },
  {
    name: 'mounts over a protected directory',
    command: 'mount --bind . .git/hooks && echo ESCAPED',
    works: false,
  },
  { name: 'unmounts what hides', command: 'umount "$(dirname "$SECRET")" && echo ESCAPED', works: false },
  { name: 'makes a user namespace', command: 'unshare -U true && echo ESCAPED', works: false },
  { name: 'makes a mount namespace', command: 'unshare -m true && echo ESCAPED', works: false },
  {
    name: 'enters the namespaces of another process',
    command: 'nsenter -t "$VICTIM" -m true && echo ESCAPED',
    works: false,
  },
  { name: 'changes its root', command: 'chroot . /bin/true && echo ESCAPED', works: false },
  {
    name: 'gains privileges by set-user-ID programs',
    command: 'grep -q "NoNewPrivs:.0" /proc/self/status && echo ESCAPED',
    works: true,
  },
  {
    name: 'has the right to administer the system',
    command: 'perl -ne \'print "ESCAPED" if /^CapEff:\\s*(\\w+)/ && hex($1) & (1<<21)\' /proc/self/status',
    works: false,
  },
  {
    name: 'types into its terminal',
    command: 'perl -e \'open T, "+<", "/dev/tty"; print "ESCAPED" if ioctl(T, 0x5412, "x")\'',
    works: false,
  },
  // The kernel reads the low half of a request alone, so a filter must not compare more. Without it: not a terminal.
  ...['TIOCSTI', 'TIOCLINUX'].map((name) => ({
    name: `asks for ${name} with a bit beyond what the kernel reads`,
    command: `perl -e 'open N, "<", "/dev/null"; $x = "x"; syscall(${number('ioctl')}, fileno N, ${name === 'TIOCSTI' ? '0x5412' : '0x541c'} | 1 << 32, $x); print "ESCAPED" if $!{ENOTTY}'`,
    works: true,
  })),
]

const processes: Attempt[] = [
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

const perlConnect = (family: string, address: string, type = 'SOCK_STREAM') =>
  `perl -MSocket=:all -e '$SIG{ALRM} = sub { exit }; alarm 2; socket(S, ${family}, ${type}, 0) or die "$!"; connect(S, ${address}) or die "$!"; ${type === 'SOCK_DGRAM' ? 'send(S, "x", 0); ' : ''}sysread(S, $b, 20); print $b'`

const network: Attempt[] = [
  {
    name: 'connects to a server on the host',
    command: `exec 3<>"/dev/tcp/127.0.0.1/$PORT" && cat <&3`,
    works: true,
  },
  { name: 'connects by a name', command: 'exec 3<>"/dev/tcp/localhost/$PORT" && cat <&3', works: true },
  {
    name: 'connects with perl',
    command: perlConnect('AF_INET', 'pack_sockaddr_in($ENV{PORT}, inet_aton("127.0.0.1"))'),
    works: true,
  },
  {
    name: 'connects by IPv6',
    command: perlConnect('AF_INET6', 'pack_sockaddr_in6($ENV{PORT6}, inet_pton(AF_INET6, "::1"))'),
    works: true,
  },
  {
    name: 'connects by a mapped address',
    command: perlConnect(
      'AF_INET6',
      'pack_sockaddr_in6($ENV{PORT}, inet_pton(AF_INET6, "::ffff:127.0.0.1"))',
    ),
    works: true,
  },
  {
    name: 'sends a datagram',
    command: perlConnect('AF_INET', 'pack_sockaddr_in($ENV{UDP}, inet_aton("127.0.0.1"))', 'SOCK_DGRAM'),
    works: true,
  },
  {
    name: 'sends without connecting',
    command: `perl -MSocket -e 'socket(S, AF_INET, SOCK_DGRAM, 0) or die; $SIG{ALRM} = sub { exit }; alarm 2; send(S, "x", 0, pack_sockaddr_in($ENV{UDP}, inet_aton("127.0.0.1"))) or die; sysread(S, $b, 20); print $b'`,
    works: true,
  },
  {
    name: 'connects by TCP Fast Open',
    command: `perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0) or die; $SIG{ALRM} = sub { exit }; alarm 2; send(S, "x", 0x20000000, pack_sockaddr_in($ENV{PORT}, inet_aton("127.0.0.1"))) or die "$!"; sysread(S, $b, 20); print $b'`,
    works: false,
  },
  { name: 'makes a raw socket', command: call('socket', '2, 3, 1').command, works: false },
  { name: 'makes a packet socket', command: call('socket', '17, 3, 768').command, works: false },
  { name: 'makes a vsock', command: call('socket', '40, 1, 0').command, works: false },
  {
    name: 'makes an MPTCP socket to the host',
    command: `perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 262) or die; connect(S, pack_sockaddr_in($ENV{PORT}, inet_aton("127.0.0.1"))) or die; sysread(S, $b, 20); print $b'`,
    works: false,
  },
  { name: 'opens the audit socket', command: call('socket', '16, 3, 9').command, works: false },
  { name: 'opens a packet filter socket', command: call('socket', '16, 3, 12').command, works: false },
  { name: 'opens a cryptography socket', command: call('socket', '38, 5, 0').command, works: false },
  {
    name: 'connects to a Unix socket',
    command: perlConnect('AF_UNIX', 'pack_sockaddr_un($ENV{SOCKET})'),
    works: true,
  },
  {
    name: 'connects to a Unix socket of the host in its own directory',
    command: perlConnect('AF_UNIX', 'pack_sockaddr_un("host.socket")'),
    works: true,
  },
  {
    name: 'connects to a Unix socket by a link',
    command: `ln -s "$SOCKET" door && ${perlConnect('AF_UNIX', 'pack_sockaddr_un("door")')}`,
    works: true,
  },
  {
    name: 'connects to a Unix socket by a linked directory',
    command: `ln -s "$(dirname "$SOCKET")" d && ${perlConnect('AF_UNIX', 'pack_sockaddr_un("d/socket")')}`,
    works: true,
  },
  {
    name: 'connects to a Unix socket by /proc/self/fd',
    command: `exec 9< "$(dirname "$SOCKET")" && ${perlConnect('AF_UNIX', 'pack_sockaddr_un("/proc/self/fd/9/socket")')}`,
    works: true,
  },
  {
    name: 'connects to an abstract Unix socket',
    command: perlConnect('AF_UNIX', 'pack_sockaddr_un("\\0" . $ENV{ABSTRACT})'),
    works: true,
  },
  {
    name: 'sends a Unix datagram',
    command: `perl -MSocket -e 'socket(S, AF_UNIX, SOCK_DGRAM, 0) and print "ESCAPED"'`,
    works: true,
  },
  {
    name: 'sends from a pair of datagram sockets',
    command: `perl -MSocket -e 'socketpair(A, B, AF_UNIX, SOCK_DGRAM, 0) and print "ESCAPED"'`,
    works: true,
  },
  {
    name: 'sends a Unix datagram from a raw socket, which is one of datagrams',
    command: `perl -MSocket -e 'socket(S, AF_UNIX, SOCK_RAW, 0) and print "ESCAPED"'`,
    works: true,
  },
  {
    name: 'sends from a pair of raw sockets',
    command: `perl -MSocket -e 'socketpair(A, B, AF_UNIX, SOCK_RAW | 0x800, 0) and print "ESCAPED"'`,
    works: true,
  },
  {
    name: 'makes a pair of another family',
    command: call('socketpair', '30, 5, 0, pack("x8")').command,
    works: false,
  },
  {
    name: 'swaps the address while it connects',
    command: `perl -MSocket -e 'mkdir "t"; for (1 .. 200) { unlink "t/s"; symlink($_ % 2 ? $ENV{SOCKET} : "nothing", "t/s"); socket(S, AF_UNIX, SOCK_STREAM, 0) or die; if (connect(S, pack_sockaddr_un("t/s"))) { sysread(S, $b, 20); print $b; last } }'`,
    works: true,
  },
]

const calls: Attempt[] = [
  call('unshare', '0x10000000', 'unshare(CLONE_NEWUSER)'),
  call('unshare', '0x20000', 'unshare(CLONE_NEWNS)'),
  call('clone', '0x10000011, 0, 0, 0, 0', 'clone(CLONE_NEWUSER)'),
  call('clone3', 'pack("Q11", 0x10000000, 0, 0, 0, 17, (0) x 6), 88', 'clone3(CLONE_NEWUSER)'),
  call('setns', '-1, 0', 'setns', '9'),
  call('mount', '"x", ".", "tmpfs", 0, 0', 'mount'),
  call('umount2', '"/", 2', 'umount2'),
  call('pivot_root', '".", "."', 'pivot_root', '22'),
  call('chroot', '"."', 'chroot'),
  call('open_tree', '-100, "/", 1', 'open_tree(OPEN_TREE_CLONE)'),
  call('fsopen', '"tmpfs", 0', 'fsopen'),
  call('mount_setattr', '-100, "/", 0, pack("Q4", (0) x 4), 32', 'mount_setattr', '22'),
  call('open_by_handle_at', '-100, pack("I2x16", 8, 1), 0', 'open_by_handle_at', '116'),
  call('bpf', '0, 0, 0', 'bpf', '22'),
  call('keyctl', '0, -3, 1', 'keyctl'),
  call('add_key', '"user", "n", "p", 1, -3', 'add_key'),
  call('userfaultfd', '0', 'userfaultfd'),
  call('perf_event_open', 'pack("I2Qx100", 1, 112, 0), 0, -1, -1, 0', 'perf_event_open', '22'),
  call('io_uring_setup', '1, pack("x120")', 'io_uring_setup'),
  call('kexec_load', '0, 0, 0, 0', 'kexec_load'),
  call('init_module', '0, 0, ""', 'init_module', '14'),
  call('reboot', '0, 0, 0, 0', 'reboot', '22'),
  call('swapon', '"x", 0', 'swapon', '2'),
  call('acct', '0', 'acct'),
  {
    name: 'system call ptrace of another process',
    command: `perl -e 'print "ESCAPED" if syscall(${number('ptrace')}, 16, 0 + $ENV{VICTIM}, 0, 0) == 0'`,
    works: true,
  },
  {
    name: 'system call pidfd_getfd of another process',
    command: `perl -e '$p = syscall(${number('pidfd_open')}, 0 + $ENV{VICTIM}, 0); print "ESCAPED" if syscall(${number('pidfd_getfd')}, $p, 9, 0) >= 0'`,
    works: true,
  },
  {
    name: 'system call process_vm_readv of another process',
    command: `perl -e '$b = "x" x 8; open M, "/proc/$ENV{VICTIM}/maps" or exit; ($a) = <M> =~ /^(\\w+)/; $l = pack("PQ", $b, 8); $r = pack("QQ", hex $a, 8); print "ESCAPED" if syscall(${number('process_vm_readv')}, 0 + $ENV{VICTIM}, $l, 1, $r, 1, 0) > 0'`,
    works: true,
  },
  call('fanotify_init', '0, 0', 'fanotify_init'),
  call('sethostname', '"x", 1', 'sethostname'),
  call('clock_settime', '0, pack("q2", 0, 0)', 'clock_settime'),
  call('syslog', '3, 0, 0', 'syslog', '22'),
  call('mknodat', '-100, "node", 0x6180, 0x100', 'mknod of a device'),
]

const foreign: Attempt[] = x64
  ? [
      {
        name: 'system calls of the x32 interface',
        command: `perl -e '$r = syscall(0x40000000 + 272, 0x10000000); print "ESCAPED" if $r >= 0'`,
        works: false,
      },
    ]
  : []

export const attempts: Attempt[] = [...files, ...machine, ...processes, ...network, ...calls, ...foreign]
