/** Attempts by system calls that a filter refuses. */
import { type Attempt, call, number, proven, unproven, x64 } from './attempt.js'

export const calls: Attempt[] = [
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
  proven(
    'system call ptrace of another process',
    `perl -e 'print "ESCAPED" if syscall(${number('ptrace')}, 16, 0 + $ENV{VICTIM}, 0, 0) == 0'`,
  ),
  proven(
    'system call pidfd_getfd of another process',
    `perl -e '$p = syscall(${number('pidfd_open')}, 0 + $ENV{VICTIM}, 0); print "ESCAPED" if syscall(${number('pidfd_getfd')}, $p, 9, 0) >= 0'`,
  ),
  proven(
    'system call process_vm_readv of another process',
    `perl -e '$b = "x" x 8; open M, "/proc/$ENV{VICTIM}/maps" or exit; ($a) = <M> =~ /^(\\w+)/; $l = pack("PQ", $b, 8); $r = pack("QQ", hex $a, 8); print "ESCAPED" if syscall(${number('process_vm_readv')}, 0 + $ENV{VICTIM}, $l, 1, $r, 1, 0) > 0'`,
  ),
  call('fanotify_init', '0, 0', 'fanotify_init'),
  call('sethostname', '"x", 1', 'sethostname'),
  call('clock_settime', '0, pack("q2", 0, 0)', 'clock_settime'),
  call('syslog', '3, 0, 0', 'syslog', '22'),
  call('mknodat', '-100, "node", 0x6180, 0x100', 'mknod of a device'),
]

export const foreign: Attempt[] = x64
  ? [
      unproven(
        'system calls of the x32 interface',
        `perl -e '$r = syscall(0x40000000 + 272, 0x10000000); print "ESCAPED" if $r >= 0'`,
      ),
    ]
  : []
