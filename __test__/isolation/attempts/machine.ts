/** Attempts to change the machine, its devices and its kernel. */
import { type Attempt, number } from './attempt.js'

export const machine: Attempt[] = [
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
