/*
 * Gives the shell a terminal for one command, and takes it back.
 *
 * It becomes the controlling terminal: of `/dev/tty`, of keys like Ctrl-C, and of job control. Only a process that leads a
 * session can have one, so the shell begins a session with its first terminal. It gives the terminal up after the command.
 *
 * A terminal sends its signals to a process group. Processes of earlier commands in that of the shell would get them too, and
 * would keep the shell from beginning a session. While there are some, the shell has no terminal.
 *
 * Giving up a terminal sends SIGHUP to the group in its foreground, which would end what the command has left behind. So
 * another group is in the foreground then, which has no process.
 */
#include "builtin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char default_type[] = "xterm-256color";

static int has_terminal;
/* The shell's own descriptor of its terminal, since a command can close the others. Number, device and inode. */
static int terminal = -1;
static struct stat terminal_file;

static int type_is_set;
static SHELL_VAR *former_type;

/* bash sets a missing type to `dumb`. */
static int has_type(void) {
  const char *type = get_string_value("TERM");
  return type && *type && strcmp(type, "dumb") != 0;
}

int leads_terminal;

void become_terminal_process(void) {
  leads_terminal = 1;
  ioctl(STDIN_FILENO, TIOCSCTTY, 0);
  if (!has_type()) bind_variable("TERM", (char *)default_type, 0);
  SHELL_VAR *variable = find_variable("TERM");
  if (variable) variable->attributes |= att_exported;
  array_needs_making = 1;
}

/* ---- The group of the shell ---- */

/* The state of a process as in proc(5), '\0' if it has ended, '?' if that cannot be read. The pid of its parent. And a number
 * that grows with its work: page faults, also of its former children, and clock ticks. */
static char state_of(pid_t pid, pid_t *parent, unsigned long *work) {
  char path[64], stat[512], state = '\0';
  unsigned long counts[4] = {0};
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? '\0' : '?';
  ssize_t length = read(fd, stat, sizeof stat - 1);
  close(fd);
  if (length <= 0) return '\0';
  stat[length] = '\0';
  const char *name_end = strrchr(stat, ')');
  if (name_end) {
    sscanf(name_end + 1, " %c %d %*d %*d %*d %*d %*u %lu %lu %*u %*u %lu %lu", &state, parent, &counts[0], &counts[1],
           &counts[2], &counts[3]);
  }
  *work = counts[0] + counts[1] + counts[2] + counts[3];
  return state;
}

/* False for a zombie. */
static int is_alive(char state) {
  return state != '\0' && state != 'Z' && state != 'X';
}

/* What a command of the shell has left running. It does not leave the group, while a fork of fork.c does as soon as it gets a
 * processor; that has another parent. */
static int is_job(pid_t pid) {
  pid_t parent = 0;
  unsigned long work;
  return is_alive(state_of(pid, &parent, &work)) && parent == getpid();
}

/* Milliseconds for others to leave the group, among them zombies, which go when their parents notice. */
enum { MOST_WAITING = 1000, LOOK_PAUSE = 10 };

/* Milliseconds for what is typed to arrive. */
enum { MOST_TYPING = 1000 };

static int leads_session(void) {
  return getsid(0) == getpid();
}

/* Finds another process of the shell's group. Returns its pid, 0 without one, or -1 with errno. A zombie gets no signals, but
 * keeps the shell from beginning a session. */
static pid_t other_member(void) {
  DIR *directory = opendir("/proc");
  if (!directory) return -1;
  pid_t group = getpgrp(), own = getpid(), found = 0;
  struct dirent *entry;
  while (!found && (entry = readdir(directory))) {
    pid_t pid = atoi(entry->d_name);
    if (pid <= 0 || pid == own || getpgid(pid) != group) continue;
    pid_t parent;
    unsigned long work;
    if (!leads_session() || is_alive(state_of(pid, &parent, &work))) found = pid;
  }
  closedir(directory);
  return found;
}

/* ---- The end of a process with a terminal ---- */

/* Milliseconds for process substitutions to print, without work of any of them, and between two looks. SIGCHLD ends a pause. */
enum { MOST_ENDING = 2000, QUIET = 100, ENDING_PAUSE = 10 };

/* Forks of the shell are not dumpable, so only root can look at their descriptors. Such a fork may have a pipe. */
static int is_piped(pid_t pid) {
  char path[64];
  struct stat file;
  for (int fd = 0; fd <= 1; fd++) {
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
    if (stat(path, &file) == 0 ? S_ISFIFO(file.st_mode) : errno != ENOENT && errno != ESRCH) return 1;
  }
  return 0;
}

/* Whether a process of the session may be a substitution, and a number that differs when one has worked, or a process has begun
 * or ended: as in `containment/src/rest.rs`. */
static int may_print(int *works, unsigned long *progress) {
  DIR *directory = opendir("/proc");
  if (!directory) return 0;
  int found = 0;
  struct dirent *entry;
  while ((entry = readdir(directory))) {
    pid_t pid = atoi(entry->d_name), parent;
    if (pid <= 0 || pid == own_pid || getsid(pid) != own_pid) continue;
    unsigned long work = 0;
    char state = state_of(pid, &parent, &work);
    int is_working = state == 'R' || state == 'D';
    int prints = is_working || (is_alive(state) && is_piped(pid));
    *works |= is_working;
    *progress += is_alive(state) ? pid + (prints ? work : 0) : 0;
    found |= prints;
  }
  closedir(directory);
  return found;
}

void await_substitutions(void) {
  if (!leads_terminal || fork_count == 0) return;
  close_streams();
  unsigned long former = 0;
  for (int waited = 0, quiet = 0; waited < MOST_ENDING && quiet < QUIET; waited += ENDING_PAUSE) {
    int works = 0;
    unsigned long progress = 0;
    if (!may_print(&works, &progress)) return;
    quiet = works || progress != former ? 0 : quiet + ENDING_PAUSE;
    former = progress;
    poll(NULL, 0, ENDING_PAUSE);
  }
}

/* ---- The session of the shell ---- */

/* Without an exit signal, bash does not see the child. Its pid stays taken until `reap`. */
static pid_t clone_unseen(void) {
  pid_t child = syscall(SYS_clone, 0UL, NULL, NULL, NULL, 0UL);
  if (child == 0) _exit(0);
  return child;
}

static void reap(pid_t child) {
  while (waitpid(child, NULL, __WALL) < 0 && errno == EINTR) {
  }
}

/* Begins a session, unless the shell leads one. A leader of a group cannot, so the shell joins that of a child before. Returns
 * 0 with errno. */
static int lead_session(void) {
  if (leads_session()) return 1;
  pid_t child = clone_unseen();
  if (child < 0) return 0;
  int leads = setpgid(child, child) == 0 && setpgid(0, child) == 0 && setsid() >= 0;
  int error = errno;
  if (!leads) setpgid(0, getpid());
  reap(child);
  errno = error;
  return leads;
}

/* The controlling terminal, or -1. */
static int open_controlling(void) {
  return open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);
}

/* Ignoring a signal drops a pending one, also if it is blocked (sigaction(3p)). */
static void drop_pending(int number) {
  struct sigaction ignore = {.sa_handler = SIG_IGN}, own;
  sigaction(number, &ignore, &own);
  sigaction(number, &own, NULL);
}

/* Gives up a controlling terminal, and closes it. Signals must be blocked: the shell itself gets none of this. */
static void disconnect(int fd) {
  ioctl(fd, TIOCNOTTY);
  drop_pending(SIGHUP);
  drop_pending(SIGCONT);
  close(fd);
}

/* The leader of a session gets a terminal also by opening one that no session has. */
static int control(int fd) {
  if (ioctl(fd, TIOCSCTTY, 0) == 0) return 1;
  int other = open_controlling();
  if (other < 0) return 0;
  disconnect(other);
  return ioctl(fd, TIOCSCTTY, 0) == 0;
}

/* ---- One command ---- */

/* While `set -m` is on, bash compares the group of the terminal with its own. */
static void set_terminal_group(pid_t group) {
  terminal_pgrp = group;
  if (job_control) set_job_control(1);
}

/* bash sets LINES and COLUMNS to the size of a terminal (shopt checkwinsize). */
static struct {
  const char *name;
  int existed;
  char *former;
} sizes[] = {{"LINES", 0, NULL}, {"COLUMNS", 0, NULL}};

static void keep_sizes(void) {
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    sizes[i].existed = global_variable(sizes[i].name) != NULL;
    sizes[i].former = copy_of(get_string_value(sizes[i].name));
  }
}

/* What the command has set itself stays, if it differs or has an attribute. */
static void restore_size(const char *name, int existed, char *former, int own) {
  SHELL_VAR *variable = global_variable(name);
  const char *now = get_string_value(name);
  if (!variable || !now || atoi(now) != own) return;
  /* Assigning to a readonly variable is an error, which ends a shell with `set -e`. */
  if (variable->attributes & att_readonly) return;
  if (former) {
    bind_variable(name, former, 0);
  } else if (!existed && !(variable->attributes & att_exported)) {
    unbind_variable(name);
  }
}

static void restore_sizes(int fd) {
  struct winsize size = {0};
  int is_known = ioctl(fd, TIOCGWINSZ, &size) == 0;
  const int own[] = {size.ws_row, size.ws_col};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    if (is_known) restore_size(sizes[i].name, sizes[i].existed, sizes[i].former, own[i]);
    xfree(sizes[i].former);
    sizes[i].former = NULL;
  }
}

int take_terminal(struct refusal_report *refused) {
  static char other_pid[16];
  pid_t other = other_member();
  for (int waited = 0; other > 0 && !is_job(other) && waited < MOST_WAITING; waited += LOOK_PAUSE) {
    usleep(LOOK_PAUSE * 1000);
    other = other_member();
  }
  *refused = (struct refusal_report){REFUSED_TERMINAL, other < 0 ? errno : 0, ""};
  if (other > 0) {
    snprintf(other_pid, sizeof other_pid, "%d", (int)other);
    refused->text = other_pid;
  }
  if (other != 0) return 0;
  uint64_t signals = block_all_signals();
  int copy = dup(STDIN_FILENO);
  terminal = copy < 0 ? -1 : move_high(copy);
  has_terminal = terminal >= 0 && fstat(terminal, &terminal_file) == 0 && lead_session() && control(terminal);
  refused->error = errno;
  restore_signal_mask(signals);
  if (!has_terminal) {
    forget_terminal();
    return 0;
  }
  keep_sizes();
  set_terminal_group(getpgrp());
  return 1;
}

void await_typed_end(void) {
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  while (poll(&input, 1, MOST_TYPING) < 0 && errno == EINTR) {
  }
}

void name_terminal(void) {
  if (!has_terminal || has_type()) return;
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

/* Puts a group without processes into the foreground: that of a child's pid, where no group is. If there can be no child, what
 * the command has left behind gets SIGHUP. */
static void empty_foreground(int fd) {
  pid_t child = clone_unseen();
  if (child < 0) return;
  tcsetpgrp(fd, child);
  reap(child);
}

/* The command may have closed the shell's descriptor, and opened something else with its number. */
static int has_descriptor(void) {
  struct stat now;
  return terminal >= 0 && fstat(terminal, &now) == 0 && now.st_ino == terminal_file.st_ino &&
         now.st_dev == terminal_file.st_dev;
}

void forget_terminal(void) {
  if (has_descriptor()) close(terminal);
  terminal = -1;
  has_terminal = 0;
}

void give_up_terminal(void) {
  if (!has_terminal) return;
  restore_type();
  int fd = has_descriptor() ? terminal : open_controlling();
  restore_sizes(fd);
  terminal = -1;
  has_terminal = 0;
  uint64_t signals = block_all_signals();
  if (fork_count > 0) empty_foreground(fd);
  disconnect(fd);
  restore_signal_mask(signals);
  set_terminal_group(-1);
}
