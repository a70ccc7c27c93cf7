/*
 * Forks that are not children of the shell: standbys, background processes, checkpoints.
 *
 * CLONE_PARENT makes the fork a child of the supervisor immediately. It needs only one fork, creates no job and does
 * not change `$!`. clone3() can also place it in a cgroup at birth. glibc's fork() is not used, so CLONE_CHILD_SETTID
 * must give glibc the thread's new id. In musl, the same address holds a lock of the list of threads.
 */
#include "builtin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef CLONE_INTO_CGROUP
#define CLONE_INTO_CGROUP 0x200000000ULL
#endif

/* The argument of clone3() with `cgroup`, since Linux 5.7. */
struct clone3_arguments {
  uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup;
};

static pid_t clone_sibling(int group, uint64_t key, int *placed) {
  int *thread = NULL;
#if defined(__GLIBC__)
  prctl(PR_GET_TID_ADDRESS, &thread);
#endif
  unsigned long flags = CLONE_PARENT | (thread ? CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID : 0);
  *placed = 0;
  if (group >= 0) {
    /* With CLONE_PARENT, the exit signal is the parent's own, and clone3() accepts no other. */
    struct clone3_arguments arguments = {
        .flags = flags | CLONE_INTO_CGROUP, .child_tid = (uintptr_t)thread, .cgroup = group};
    /* Also in the child, which does not return through the assignment below. */
    *placed = 1;
    /* The kernel ignores the third argument. A confined session's filter checks it, since clone3() hides its flags. */
    pid_t pid = syscall(SYS_clone3, &arguments, sizeof arguments, key);
    if (pid >= 0) return pid;
    *placed = 0;
  }
#if defined(__x86_64__)
  return syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, thread, 0UL);
#else
  return syscall(SYS_clone, flags | SIGCHLD, NULL, NULL, 0UL, thread);
#endif
}

/* A standby keeps files, but no ends of pipes or sockets, since other processes wait for these to close. */
static void close_pipes_and_sockets(void) {
  DIR *directory = opendir("/proc/self/fd");
  if (!directory) return;
  struct dirent *entry;
  while ((entry = readdir(directory))) {
    int fd = atoi(entry->d_name);
    struct stat status;
    if (fd <= 2 || fd == channel || fd == dirfd(directory) || fstat(fd, &status) < 0) continue;
    if (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode)) close(fd);
  }
  closedir(directory);
}

/* Without control groups, the supervisor tells by a mark what the shell has started (crates/containment/src/descent_mark.rs):
 * what a shell starts that was a standby has another one. The pid is unique among what lives, the time among what has lived. */
static void change_mark(void) {
  const rlim_t name = (1ULL << DESCENT_NAME_BITS) - 1;
  struct rlimit limit;
  struct timespec now;
  if (getrlimit(RLIMIT_RSS, &limit) < 0 || limit.rlim_cur >> DESCENT_MARK_BIT != 1) return;
  clock_gettime(CLOCK_MONOTONIC, &now);
  rlim_t fresh = (rlim_t)own_pid << (DESCENT_NAME_BITS - 22) ^ ((rlim_t)now.tv_sec << 30 | (rlim_t)now.tv_nsec);
  limit.rlim_cur = (limit.rlim_cur & ~name) | (fresh & name);
  setrlimit(RLIMIT_RSS, &limit);
}

static void begin_standby(void) {
  setpgid(0, 0);
  change_mark();
  close_pipes_and_sockets();
  is_standby = 1;
  is_background = 0;
}

static void begin_background(int with_session) {
  if (with_session) {
    setsid();
  } else {
    setpgid(0, 0);
  }
  close_pipes_and_sockets();
  become_shell();
  give_up_standby_name();
  is_background = 1;
  release_signals();
  if (seedrand) seedrand();
}

struct passed {
  int channel, group, file;
};

/* Descriptors in the protocol's order; -1 if missing. */
static struct passed passed_descriptors(const struct message *message) {
  const uint32_t flags = message->request->flags;
  int next = 0;
  struct passed passed = {-1, -1, -1};
  passed.channel = next < message->count ? message->descriptors[next++] : -1;
  if (flags & GROUP && next < message->count) passed.group = message->descriptors[next++];
  if (flags & CHECKPOINT && next < message->count) passed.file = message->descriptors[next++];
  return passed;
}

/* A signal that came just before was for the shell: builtins of bash, which a checkpoint uses too, would act on it. Further
 * signals are blocked. */
static void begin_child(const struct passed *passed, uint32_t flags) {
  drop_pending_signals();
  if (flags & STANDBY) note_group(passed->group);
  if (passed->group >= 0) close(passed->group);
  close_channel();
  if (flags & CHECKPOINT) {
    setpgid(0, 0);
    fcntl(passed->channel, F_SETFD, FD_CLOEXEC);
    write_checkpoint(passed->file);
  }
  adopt_channel(passed->channel);
  if (flags & BACKGROUND) {
    begin_background((flags & TERMINAL) != 0);
  } else {
    begin_standby();
  }
}

void fork_request(struct message *message) {
  const uint32_t flags = message->request->flags;
  struct passed passed = passed_descriptors(message);
  struct reply forked = {.kind = FORKED, .id = message->request->id};
  int placed = 0;
  /* Blocks signals until the child has set up its own handling: the shell's would swallow an earlier signal. */
  uint64_t signals = block_all_signals();
  int is_named = flags & STANDBY && take_standby_name();
  pid_t pid = passed.channel < 0 ? -1 : clone_sibling(passed.group, message->request->fork_key, &placed);
  int reason = pid >= 0 ? 0 : passed.channel < 0 ? EMFILE : errno;
  if (is_named && pid != 0) give_up_standby_name();
  message->request->fork_key = 0;
  if (pid == 0) {
    own_pid = getpid();
    begin_child(&passed, flags);
  }
  restore_signal_mask(signals);
  if (pid == 0) return;
  forked.status = reason;
  forked.pid = pid < 0 ? 0 : pid;
  forked.flags = pid > 0 && placed ? PLACED : 0;
  for (int i = 0; i < message->count; i++) close(message->descriptors[i]);
  send_reply(&forked, "");
  if (pid > 0 && flags & STANDBY && !(flags & NO_WARM)) warm_pages();
}
