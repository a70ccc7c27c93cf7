/*
 * Gives the shell a terminal for one command, and takes it back.
 *
 * It becomes the controlling terminal: of `/dev/tty`, of keys like Ctrl-C, and of job control. Only a process that leads its
 * session can have one. The shell does, and gives it up after the command.
 *
 * A terminal sends its signals to a process group, and the shell cannot leave the one that it leads. Processes of earlier
 * commands in that group would get them too. While there are some, the shell has no terminal.
 *
 * Giving up a terminal sends SIGHUP to the group in its foreground, which would end what the command has left behind. So
 * another group is in the foreground then, which has no process.
 */
#include "builtin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char default_type[] = "xterm-256color";

/* The shell's own descriptor of its terminal, or -1. A command can close the others. */
static int terminal = -1;

static int type_is_set;
static SHELL_VAR *former_type;

/* bash sets a missing type to `dumb`. */
static int has_type(void) {
  const char *type = get_string_value("TERM");
  return type && *type && strcmp(type, "dumb") != 0;
}

void become_terminal_process(void) {
  ioctl(STDIN_FILENO, TIOCSCTTY, 0);
  if (!has_type()) bind_variable("TERM", (char *)default_type, 0);
  SHELL_VAR *variable = find_variable("TERM");
  if (variable) variable->attributes |= att_exported;
  array_needs_making = 1;
}

/* ---- The group of the shell ---- */

/* A zombie gets no signals. */
static int is_alive(const char *pid) {
  char path[64], stat[512];
  snprintf(path, sizeof path, "/proc/%s/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = fd < 0 ? -1 : read(fd, stat, sizeof stat - 1);
  if (fd >= 0) close(fd);
  if (length <= 0) return 0;
  stat[length] = '\0';
  const char *name_end = strrchr(stat, ')');
  return name_end && name_end[1] == ' ' && name_end[2] != 'Z' && name_end[2] != 'X';
}

/* The newest forks of fork.c. Each leaves the group as soon as it gets a processor. */
static pid_t forks[64];
static unsigned forks_made;

void note_fork(pid_t pid) {
  forks[forks_made++ % (sizeof forks / sizeof *forks)] = pid;
}

/* Milliseconds that a fork may take to leave the group. */
enum { MOST_WAITING = 1000 };

static int leaves_group(pid_t pid, pid_t group) {
  int is_fork = 0;
  for (size_t i = 0; i < sizeof forks / sizeof *forks; i++) is_fork |= forks[i] == pid;
  for (int waited = 0; is_fork && waited < MOST_WAITING; waited++) {
    if (getpgid(pid) != group) return 1;
    usleep(1000);
  }
  return 0;
}

/* Finds another process of the shell's group. Returns its pid, 0 without one, or -1 with errno. */
static pid_t other_member(void) {
  DIR *directory = opendir("/proc");
  if (!directory) return -1;
  pid_t group = getpgrp(), own = getpid(), found = 0;
  struct dirent *entry;
  while (!found && (entry = readdir(directory))) {
    pid_t pid = atoi(entry->d_name);
    if (pid <= 0 || pid == own || getpgid(pid) != group || !is_alive(entry->d_name)) continue;
    if (!leaves_group(pid, group)) found = pid;
  }
  closedir(directory);
  return found;
}

/* ---- One command ---- */

int take_terminal(struct refusal_report *refused) {
  static char other_pid[16];
  pid_t other = other_member();
  *refused = (struct refusal_report){REFUSED_TERMINAL, other < 0 ? errno : 0, ""};
  if (other > 0) {
    snprintf(other_pid, sizeof other_pid, "%d", (int)other);
    refused->text = other_pid;
  }
  if (other != 0) return 0;
  int copy = dup(STDIN_FILENO);
  terminal = copy < 0 ? -1 : move_high(copy);
  if (terminal < 0 || ioctl(terminal, TIOCSCTTY, 0) < 0) {
    refused->error = errno;
    forget_terminal();
    return 0;
  }
  terminal_pgrp = getpgrp();
  return 1;
}

void name_terminal(void) {
  if (terminal < 0 || has_type()) return;
  former_type = replace_variable("TERM", default_type, 1);
  type_is_set = 1;
}

/* A command may have set another type, which stays. */
static void restore_type(void) {
  if (!type_is_set) return;
  type_is_set = 0;
  const char *type = get_string_value("TERM");
  if (type && strcmp(type, default_type) == 0) {
    put_back_variable("TERM", former_type);
  } else if (former_type) {
    dispose_variable(former_type);
  }
  former_type = NULL;
}

/* Puts a group without processes into the foreground: that of a child's pid, where no group is. Without an exit signal, bash
 * does not see the child. If there can be no child, what the command has left behind gets SIGHUP. */
static void empty_foreground(void) {
  pid_t child = syscall(SYS_clone, 0UL, NULL, NULL, NULL, 0UL);
  if (child == 0) _exit(0);
  if (child < 0) return;
  tcsetpgrp(terminal, child);
  while (waitpid(child, NULL, __WALL) < 0 && errno == EINTR) {
  }
}

void give_up_terminal(void) {
  if (terminal < 0) return;
  restore_type();
  uint64_t signals = block_all_signals();
  struct sigaction ignore = {.sa_handler = SIG_IGN}, hangup, resume;
  sigaction(SIGHUP, &ignore, &hangup);
  sigaction(SIGCONT, &ignore, &resume);
  if (fork_count > 0) empty_foreground();
  ioctl(terminal, TIOCNOTTY);
  sigaction(SIGHUP, &hangup, NULL);
  sigaction(SIGCONT, &resume, NULL);
  restore_signal_mask(signals);
  forget_terminal();
  terminal_pgrp = -1;
}

void forget_terminal(void) {
  if (terminal >= 0) close(terminal);
  terminal = -1;
}
