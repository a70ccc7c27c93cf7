/*
 * The end of a session whose host and supervisor were killed at the same moment: its standby is all that is left of nacre.
 *
 * The channel of a standby ends with the host. A supervisor that lives kills the standby then, with everything else; if a
 * command has stopped it, the standby resumes it. If it was killed, too, the standby leaves the session's control groups, kills
 * what is in them, and removes them. It knows them by the descriptor of its own group, in which it was born. Where it may not
 * see them, nothing happens.
 */
#include "builtin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
  MOST_LOOKS = 500, /* half a second: for the end of each, and then for that of what is killed */
  LOOK = 1000       /* microseconds between two */
};

/* The group of the session. Empty if there is none. */
static char session[PATH_MAX];
static pid_t supervisor;

/* Removes the last name of a path. */
static void ascend(char *path) {
  char *end = strrchr(path, '/');
  *(end ? end : path) = '\0';
}

void note_group(int fd) {
  char link[32];
  supervisor = getppid();
  /* A fork of a standby is in the same session. */
  if (*session) return;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = fd < 0 ? -1 : readlink(link, session, sizeof session - 1);
  session[length < 0 ? 0 : length] = '\0';
  ascend(session);
  const char *name = strrchr(session, '/');
  if (!name || strncmp(name, "/nacre-", 7) != 0) *session = '\0';
}

static int write_file(const char *directory, const char *name, const char *text) {
  char path[PATH_MAX + 32];
  snprintf(path, sizeof path, "%s/%s", directory, name);
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  int is_written = fd >= 0 && write(fd, text, strlen(text)) > 0;
  if (fd >= 0) close(fd);
  return is_written;
}

static int remove_group(const char *group) {
  DIR *directory = opendir(group);
  struct dirent *entry;
  while (directory && (entry = readdir(directory))) {
    char inner[PATH_MAX];
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
    if ((size_t)snprintf(inner, sizeof inner, "%s/%s", group, entry->d_name) < sizeof inner) remove_group(inner);
  }
  if (directory) closedir(directory);
  return rmdir(group) == 0;
}

/* Whether the host may live, which made the channel. It also closes that of a standby that it has replaced. */
static int host_lives(void) {
#ifdef SYS_pidfd_open
  struct ucred host;
  socklen_t length = sizeof host;
  if (getsockopt(channel, SOL_SOCKET, SO_PEERCRED, &host, &length) < 0) return 1;
  struct pollfd end = {.fd = syscall(SYS_pidfd_open, host.pid, 0), .events = POLLIN};
  if (end.fd < 0) return errno != ESRCH;
  int lives = poll(&end, 1, 0) == 0;
  close(end.fd);
  return lives;
#else
  return 1;
#endif
}

void bury_session(void) {
  char above[PATH_MAX];
  int looks;
  for (looks = 0; host_lives(); looks++) {
    if (looks == MOST_LOOKS) return;
    usleep(LOOK);
  }
  if (supervisor > 0 && getppid() == supervisor) kill(supervisor, SIGCONT);
  if (!*session) return;
  for (looks = 0; getppid() == supervisor; looks++) {
    if (looks == MOST_LOOKS) return;
    usleep(LOOK);
  }
  /* A group that hands limits down, as to the sessions of a sandbox, takes no processes. */
  strcpy(above, session);
  ascend(above);
  if (!write_file(above, "cgroup.procs", "0")) {
    /* Where that takes none either, the standby dies with the others, and the next program removes the groups. */
    ascend(above);
    write_file(above, "cgroup.procs", "0");
  }
  write_file(session, "cgroup.kill", "1");
  for (looks = 0; !remove_group(session) && looks < MOST_LOOKS; looks++) usleep(LOOK);
  strcpy(above, session);
  ascend(above);
  const char *name = strrchr(above, '/');
  if (name && strncmp(name, "/nacre-sandbox-", 15) == 0) rmdir(above);
}
