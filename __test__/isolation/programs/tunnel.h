/* A connection by the proxy of the session. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Asks a proxy for a tunnel on a connected socket. The descriptor, or -1 if it refuses. */
static int ask(int fd, const char *target) {
  char text[512];
  int length = snprintf(text, sizeof text, "CONNECT %s HTTP/1.1\r\n\r\n", target);
  if (send(fd, text, (size_t)length, MSG_NOSIGNAL) != length) return -1;
  size_t read_so_far = 0;
  while (read_so_far < sizeof text - 1) {
    ssize_t got = recv(fd, text + read_so_far, 1, 0);
    if (got <= 0) return -1;
    read_so_far += (size_t)got;
    text[read_so_far] = 0;
    if (strstr(text, "\r\n\r\n")) return strstr(text, " 200 ") ? fd : -1;
  }
  return -1;
}

static struct sockaddr_in loopback(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((unsigned short)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

/* A connection to a target like 192.0.2.1:80, by connect(2). -1 if it is refused. */
static int direct(const char *target) {
  char host[64];
  struct sockaddr_in address = {.sin_family = AF_INET};
  const char *colon = strchr(target, ':');
  if (!colon || colon - target >= (long)sizeof host) return -1;
  memcpy(host, target, (size_t)(colon - target));
  host[colon - target] = 0;
  address.sin_port = htons((unsigned short)atoi(colon + 1));
  inet_pton(AF_INET, host, &address.sin_addr);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  return connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ? fd : -1;
}

/* A tunnel to the target through the proxy at a port, or a connection without the proxy at port 0. -1 if it is refused. */
static int tunnel(int port, const char *target) {
  if (port == 0) return direct(target);
  struct sockaddr_in address = loopback(port);
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) return -1;
  return ask(fd, target);
}

/* Sends a request and prints the reply. */
static void request(int fd, const char *path) {
  char text[512];
  int length = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n", path);
  if (send(fd, text, (size_t)length, MSG_NOSIGNAL) != length) return;
  ssize_t got;
  while ((got = recv(fd, text, sizeof text, 0)) > 0) fwrite(text, 1, (size_t)got, stdout);
  fflush(stdout);
}
