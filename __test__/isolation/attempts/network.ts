/** Attempts to reach servers and sockets of the host. */
import { type Attempt, call, proven, unproven } from './attempt.js'

const perlConnect = (family: string, address: string, type = 'SOCK_STREAM') =>
  `perl -MSocket=:all -e '$SIG{ALRM} = sub { exit }; alarm 2; socket(S, ${family}, ${type}, 0) or die "$!"; connect(S, ${address}) or die "$!"; ${type === 'SOCK_DGRAM' ? 'send(S, "x", 0); ' : ''}sysread(S, $b, 20); print $b'`

export const network: Attempt[] = [
  proven('connects to a server on the host', `exec 3<>"/dev/tcp/127.0.0.1/$PORT" && cat <&3`),
  proven('connects by a name', 'exec 3<>"/dev/tcp/localhost/$PORT" && cat <&3'),
  proven(
    'connects with perl',
    perlConnect('AF_INET', 'pack_sockaddr_in($ENV{PORT}, inet_aton("127.0.0.1"))'),
  ),
  proven(
    'connects by IPv6',
    perlConnect('AF_INET6', 'pack_sockaddr_in6($ENV{PORT6}, inet_pton(AF_INET6, "::1"))'),
  ),
  proven(
    'connects by a mapped address',
    perlConnect('AF_INET6', 'pack_sockaddr_in6($ENV{PORT}, inet_pton(AF_INET6, "::ffff:127.0.0.1"))'),
  ),
  proven(
    'sends a datagram',
    perlConnect('AF_INET', 'pack_sockaddr_in($ENV{UDP}, inet_aton("127.0.0.1"))', 'SOCK_DGRAM'),
  ),
  proven(
    'sends without connecting',
    `perl -MSocket -e 'socket(S, AF_INET, SOCK_DGRAM, 0) or die; $SIG{ALRM} = sub { exit }; alarm 2; send(S, "x", 0, pack_sockaddr_in($ENV{UDP}, inet_aton("127.0.0.1"))) or die; sysread(S, $b, 20); print $b'`,
  ),
  unproven(
    'connects by TCP Fast Open',
    `perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0) or die; $SIG{ALRM} = sub { exit }; alarm 2; send(S, "x", 0x20000000, pack_sockaddr_in($ENV{PORT}, inet_aton("127.0.0.1"))) or die "$!"; sysread(S, $b, 20); print $b'`,
  ),
  unproven('makes a raw socket', call('socket', '2, 3, 1').command),
  unproven('makes a packet socket', call('socket', '17, 3, 768').command),
  unproven('makes a vsock', call('socket', '40, 1, 0').command),
  unproven(
    'makes an MPTCP socket to the host',
    `perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 262) or die; connect(S, pack_sockaddr_in($ENV{PORT}, inet_aton("127.0.0.1"))) or die; sysread(S, $b, 20); print $b'`,
  ),
  unproven('opens the audit socket', call('socket', '16, 3, 9').command),
  unproven('opens a packet filter socket', call('socket', '16, 3, 12').command),
  unproven('opens a cryptography socket', call('socket', '38, 5, 0').command),
  proven('connects to a Unix socket', perlConnect('AF_UNIX', 'pack_sockaddr_un($ENV{SOCKET})')),
  proven(
    'connects to a Unix socket of the host in its own directory',
    perlConnect('AF_UNIX', 'pack_sockaddr_un("host.socket")'),
  ),
  proven(
    'connects to a Unix socket by a link',
    `ln -s "$SOCKET" door && ${perlConnect('AF_UNIX', 'pack_sockaddr_un("door")')}`,
  ),
  proven(
    'connects to a Unix socket by a linked directory',
    `ln -s "$(dirname "$SOCKET")" d && ${perlConnect('AF_UNIX', 'pack_sockaddr_un("d/socket")')}`,
  ),
  proven(
    'connects to a Unix socket by /proc/self/fd',
    `exec 9< "$(dirname "$SOCKET")" && ${perlConnect('AF_UNIX', 'pack_sockaddr_un("/proc/self/fd/9/socket")')}`,
  ),
  proven(
    'connects to an abstract Unix socket',
    perlConnect('AF_UNIX', 'pack_sockaddr_un("\\0" . $ENV{ABSTRACT})'),
  ),
  proven('sends a Unix datagram', `perl -MSocket -e 'socket(S, AF_UNIX, SOCK_DGRAM, 0) and print "ESCAPED"'`),
  proven(
    'sends from a pair of datagram sockets',
    `perl -MSocket -e 'socketpair(A, B, AF_UNIX, SOCK_DGRAM, 0) and print "ESCAPED"'`,
  ),
  proven(
    'sends a Unix datagram from a raw socket, which is one of datagrams',
    `perl -MSocket -e 'socket(S, AF_UNIX, SOCK_RAW, 0) and print "ESCAPED"'`,
  ),
  proven(
    'sends from a pair of raw sockets',
    `perl -MSocket -e 'socketpair(A, B, AF_UNIX, SOCK_RAW | 0x800, 0) and print "ESCAPED"'`,
  ),
  unproven('makes a pair of another family', call('socketpair', '30, 5, 0, pack("x8")').command),
  proven(
    'swaps the address while it connects',
    `perl -MSocket -e 'mkdir "t"; for (1 .. 200) { unlink "t/s"; symlink($_ % 2 ? $ENV{SOCKET} : "nothing", "t/s"); socket(S, AF_UNIX, SOCK_STREAM, 0) or die; if (connect(S, pack_sockaddr_un("t/s"))) { sysread(S, $b, 20); print $b; last } }'`,
  ),
]
