/** Attempts to reach servers and sockets of the host. */
import { type Attempt, call } from './attempt.js'

const perlConnect = (family: string, address: string, type = 'SOCK_STREAM') =>
  `perl -MSocket=:all -e '$SIG{ALRM} = sub { exit }; alarm 2; socket(S, ${family}, ${type}, 0) or die "$!"; connect(S, ${address}) or die "$!"; ${type === 'SOCK_DGRAM' ? 'send(S, "x", 0); ' : ''}sysread(S, $b, 20); print $b'`

export const network: Attempt[] = [
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
