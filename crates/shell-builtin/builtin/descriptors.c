/*
 * The descriptors of a shell: those of the engine lie above the numbers that scripts use, and 0 to 2 are closed between
 * commands.
 */
#include "builtin.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Above the numbers that scripts use, and apart from those that bash uses, which are 255 and from 63 down. */
enum { HIGH = 240, HIGH_WHEN_FEW = 10, LOWEST = 3 };

int move_high(int fd) {
  static const int lowest[] = {HIGH, HIGH_WHEN_FEW, LOWEST};
  for (size_t i = 0; i < sizeof lowest / sizeof *lowest; i++) {
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, lowest[i]);
    if (moved < 0) continue;
    close(fd);
    return moved;
  }
  return fd;
}

void close_streams(void) {
#ifdef SYS_close_range
  if (syscall(SYS_close_range, 0, 2, 0) == 0) return;
#endif
  for (int fd = 0; fd <= 2; fd++) close(fd);
}

void open_null_streams(void) {
  close_streams();
  if (open("/dev/null", O_RDWR) == 0 && dup(0) == 1) (void)!dup(0);
}
