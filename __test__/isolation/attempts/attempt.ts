/** What an attempt is, and how the simple ones are made. */

export interface Attempt {
  name: string
  command: string
  /** Succeeds without isolation, as an ordinary user, which proves that the attempt works. */
  works: boolean
  /** Only with mount namespaces. */
  needs?: 'mounts'
  /** It is about the session's shell. */
  onlyInSessions?: true
}

export const x64 = process.arch === 'x64'

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
  mmap: [9, 222],
  prlimit64: [302, 261],
  openat: [257, 56],
  openat2: [437, 437],
  fchmodat: [268, 53],
  fchmodat2: [452, 452],
}

/** The number of a system call on this machine. */
export const number = (name: string) => (NUMBERS[name] as [number, number])[x64 ? 0 : 1]

/** A system call that must fail; an errno of `allowed` counts as having been let through to the kernel's own checks. */
export function call(name: string, args: string, title = name, letThrough = ''): Attempt {
  const through = letThrough && ` or $! == ${letThrough}`
  const script = `$r = syscall(${number(name)}, ${args}); print "ESCAPED" if $r >= 0${through}; print " $r $!\\n"`
  return { name: `system call ${title}`, command: `perl -e '${script}'`, works: false }
}

/** An attempt whose command prints ESCAPED without isolation. */
export const proven = (name: string, command: string, more: Partial<Attempt> = {}): Attempt => ({
  ...{ name, command, works: true, ...more },
})

/** One that is refused without isolation, too: it needs privileges, or what not every machine has. */
export const unproven = (name: string, command: string, more: Partial<Attempt> = {}): Attempt => ({
  ...{ name, command, works: false, ...more },
})

/** An attempt that succeeds when its command does. */
export const write = (name: string, command: string, needs?: 'mounts'): Attempt =>
  proven(name, `${command} && echo ESCAPED`, needs && { needs })
