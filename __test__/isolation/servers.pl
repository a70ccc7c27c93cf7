# Servers that answer ESCAPED: TCP, TCP over IPv6, UDP, a Unix socket and an abstract one; and a System V segment that
# holds it. Prints their numbers.
use strict;
use warnings;
use IPC::SysV qw(IPC_PRIVATE);
use Socket qw(:all);

my ($path, $abstract) = @ARGV;
my %tcp;

sub listening {
  my ($family, $address) = @_;
  socket(my $server, $family, SOCK_STREAM, 0) or die "socket: $!";
  bind($server, $address) or die "bind: $!";
  listen($server, 16) or die "listen: $!";
  $tcp{fileno $server} = $server;
  return $server;
}

my $v4 = listening(AF_INET, pack_sockaddr_in(0, INADDR_LOOPBACK));
my $v6 = listening(AF_INET6, pack_sockaddr_in6(0, inet_pton(AF_INET6, '::1')));
listening(AF_UNIX, pack_sockaddr_un($path));
chmod 0777, $path;
listening(AF_UNIX, pack_sockaddr_un("\0$abstract"));
socket(my $udp, AF_INET, SOCK_DGRAM, 0) or die "socket: $!";
bind($udp, pack_sockaddr_in(0, INADDR_LOOPBACK)) or die "bind: $!";

my ($port) = unpack_sockaddr_in(getsockname $v4);
my ($port6) = unpack_sockaddr_in6(getsockname $v6);
my ($udp_port) = unpack_sockaddr_in(getsockname $udp);
$| = 1;
my $shared = shmget(IPC_PRIVATE, 7, 0600) // die "shmget: $!";
shmwrite($shared, 'ESCAPED', 0, 7) or die "shmwrite: $!";
print "$port $port6 $udp_port $shared\n";

while (1) {
  my $ready = '';
  vec($ready, $_, 1) = 1 for keys %tcp, fileno $udp;
  vec($ready, 0, 1) = 1;
  select($ready, undef, undef, undef) > 0 or next;
  exit if vec($ready, 0, 1);
  for my $number (grep { vec($ready, $_, 1) } keys %tcp) {
    accept(my $client, $tcp{$number}) or next;
    send($client, 'ESCAPED', MSG_NOSIGNAL);
    close $client;
  }
  if (vec($ready, fileno $udp, 1)) {
    my $from = recv($udp, my $data, 100, 0);
    send($udp, 'ESCAPED', 0, $from) if defined $from;
  }
}
