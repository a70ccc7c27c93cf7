/** Attempts to change the machine, its devices and its kernel. */
import { type Attempt, number, proven, unproven } from './attempt.js'

export const machine: Attempt[] = [
  unproven('writes a kernel setting', 'echo 1 > /proc/sys/kernel/printk && echo ESCAPED'),
  unproven(
    'writes the core pattern',
    'cat /proc/sys/kernel/core_pattern > c && cat c > /proc/sys/kernel/core_pattern && echo ESCAPED',
  ),
  unproven('writes sysrq', 'echo h > /proc/sysrq-trigger && echo ESCAPED'),
  unproven('writes a control group', 'mkdir /sys/fs/cgroup/nacre-escape && echo ESCAPED'),
  unproven('moves itself to another control group', 'echo $$ > /sys/fs/cgroup/cgroup.procs && echo ESCAPED'),
  unproven('makes a device', 'mknod dev b 254 0 && echo ESCAPED'),
  unproven(
    'reads a disk',
    'for d in /dev/vda /dev/sda /dev/nvme0n1; do head -c 1 $d; done 2>/dev/null | grep -q . && echo ESCAPED',
  ),
  unproven('reads memory', 'head -c 1 /dev/mem /proc/kcore 2>/dev/null | grep -q . && echo ESCAPED'),
  unproven('mounts a tmpfs', 'mount -t tmpfs x . && echo ESCAPED'),
  unproven('mounts over a protected directory', 'mount --bind . .git/hooks && echo ESCAPED'),
  unproven('unmounts what hides', 'umount "$(dirname "$SECRET")" && echo ESCAPED'),
  unproven('makes a user namespace', 'unshare -U true && echo ESCAPED'),
  unproven('makes a mount namespace', 'unshare -m true && echo ESCAPED'),
  unproven('enters the namespaces of another process', 'nsenter -t "$VICTIM" -m true && echo ESCAPED'),
  unproven('changes its root', 'chroot . /bin/true && echo ESCAPED'),
  proven(
    'gains privileges by set-user-ID programs',
    'grep -q "NoNewPrivs:.0" /proc/self/status && echo ESCAPED',
  ),
  unproven(
    'has the right to administer the system',
    'perl -ne \'print "ESCAPED" if /^CapEff:\\s*(\\w+)/ && hex($1) & (1<<21)\' /proc/self/status',
  ),
  unproven(
    'types into its terminal',
    'perl -e \'open T, "+<", "/dev/tty"; print "ESCAPED" if ioctl(T, 0x5412, "x")\'',
  ),
  // The kernel reads the low half of a request alone, so a filter must not compare more. Without it: not a terminal.
  ...['TIOCSTI', 'TIOCLINUX'].map((name) =>
    proven(
      `asks for ${name} with a bit beyond what the kernel reads`,
      `perl -e 'open N, "<", "/dev/null"; $x = "x"; syscall(${number('ioctl')}, fileno N, ${name === 'TIOCSTI' ? '0x5412' : '0x541c'} | 1 << 32, $x); print "ESCAPED" if $!{ENOTTY}'`,
    ),
  ),
]
