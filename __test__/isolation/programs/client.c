/* A program that has a host of its own: `client PROXY-PORT TARGET PATH [COMMAND...]` sends a request by the proxy and prints the
 * reply. With a command, it sends nothing, and the command inherits the connection as descriptor 9. With `wait` as path, it
 * connects and waits for its standard input. */
#define _GNU_SOURCE
#include "tunnel.h"
#include <sys/wait.h>

int main(int count, char **words) {
  if (count < 4) return 2;
  int fd = tunnel(atoi(words[1]), words[2]);
  if (fd < 0) {
    printf("refused\n");
    return 1;
  }
  if (count > 4) {
    /* The connection first, and then a copy: neither may be left. */
    if (fork() == 0) {
      execvp(words[4], words + 4);
      _exit(127);
    }
    wait(NULL);
    return 0;
  }
  if (strcmp(words[3], "wait") == 0) {
    char byte;
    printf("waits %d\n", fd);
    fflush(stdout);
    return read(0, &byte, 1) < 0;
  }
  request(fd, words[3]);
  return 0;
}
