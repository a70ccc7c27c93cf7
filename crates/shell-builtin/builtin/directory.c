/*
 * A command's own directory, and the return to the session's.
 *
 * A descriptor keeps the session's directory, so the return works even if the directory has been renamed or removed.
 * bash's name for it is a separate string, which is restored unchanged.
 *
 * When another mount replaces the one with the session's directory, the shell enters the directory anew. bash's name for it
 * stays valid, and so do its variables and its directory stack.
 */
#include "builtin.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int saved_fd = -1;
static dev_t saved_device;
static ino_t saved_inode;
static char *saved_idea;

int save_directory(void) {
  struct stat status;
  int fd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return 0;
  saved_fd = move_high(fd);
  fstat(saved_fd, &status);
  saved_device = status.st_dev;
  saved_inode = status.st_ino;
  saved_idea = copy_of(the_current_working_directory);
  return 1;
}

/* A script may have closed the descriptor or put another file in its place. */
static int saved_fd_is_ours(void) {
  struct stat status;
  return saved_fd >= 0 && fstat(saved_fd, &status) == 0 && status.st_dev == saved_device && status.st_ino == saved_inode;
}

/* Closes the descriptor in a fork, so that no subshell can see it. */
void forget_directory(void) {
  if (saved_fd_is_ours()) close(saved_fd);
  saved_fd = -1;
}

void restore_directory(void) {
  if (!saved_fd_is_ours() || fchdir(saved_fd) < 0) {
    if (saved_idea) (void)!chdir(saved_idea);
  }
  forget_directory();
  xfree(the_current_working_directory);
  the_current_working_directory = saved_idea;
  saved_idea = NULL;
}

static int use_physical_name(void) {
  char *physical = getcwd(NULL, 0);
  if (physical) set_working_directory(physical);
  free(physical);
  return 1;
}

static void set_directory_name(const char *variable_name, const char *path) {
  SHELL_VAR *variable = global_variable(variable_name);
  if (!variable || !(variable->attributes & att_readonly)) bind_variable(variable_name, (char *)path, 0);
}

int leads_here(const char *name) {
  struct stat here, there;
  return name && stat(".", &here) == 0 && stat(name, &there) == 0 && here.st_dev == there.st_dev &&
         here.st_ino == there.st_ino;
}

/* Repairs `PWD` and `OLDPWD` (the former `PWD`): an interrupted `cd` may have changed the directory but not these
 * names. */
void repair_directory_names(void) {
  const char *name = get_string_value("PWD");
  if (leads_here(name) && the_current_working_directory && strcmp(name, the_current_working_directory) == 0) return;
  char *physical = getcwd(NULL, 0);
  if (!physical) return;
  set_working_directory(physical);
  if (name) set_directory_name("OLDPWD", name);
  set_directory_name("PWD", physical);
  free(physical);
}

/* By the logical name if that leads there, like `cd`. */
int change_directory(const char *path) {
  char *base = the_current_working_directory ? copy_of(the_current_working_directory) : getcwd(NULL, 0);
  char *absolute = base || *path == '/' ? make_absolute(path, base) : NULL;
  char *logical = absolute && !no_symbolic_links ? sh_canonpath(absolute, PATH_CHECKDOTDOT | PATH_CHECKEXISTS) : NULL;
  int changed;
  if (logical && chdir(logical) == 0) {
    set_working_directory(logical);
    changed = 1;
  } else {
    changed = chdir(path) == 0 && use_physical_name();
  }
  int reason = errno;
  xfree(base);
  xfree(absolute);
  xfree(logical);
  errno = reason;
  return changed;
}

/* The kernel's name for the directory: "(unreachable)" precedes it if the mount has been detached. Returns 0 if it has none:
 * it has been removed, or the name is too long. The C library's function would look for another name. */
static int kernel_name(char name[PATH_MAX]) {
  return syscall(SYS_getcwd, name, PATH_MAX) > 0;
}

int can_reenter_directory(void) {
  char name[PATH_MAX];
  return kernel_name(name) && *name == '/' && leads_here(name);
}

void reenter_directory(int socket) {
  char before[PATH_MAX], after[PATH_MAX], byte = 0;
  int is_named = kernel_name(before) && *before == '/';
  ssize_t received = send(socket, &byte, 1, MSG_NOSIGNAL);
  while (received > 0 || (received < 0 && errno == EINTR)) received = recv(socket, &byte, 1, 0);
  if (is_named && kernel_name(after) && *after != '/') (void)!chdir(before);
}
