/*
 * Distinguishes the shell itself from its forks.
 *
 * bash forks for subshells, pipelines and programs. `pthread_atfork` handlers close the channel in those children, so
 * that no subshell can see it. They also count the forks for the host, which need not look for leftovers of a command
 * without forks.
 *
 * They also note which forks are asynchronous. The output of a process substitution belongs to the result of its command,
 * that of a job (`&`) does not. bash keeps a substitution out of its table of jobs.
 */
#include "builtin.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

pid_t own_pid;
int is_background, is_standby;
unsigned fork_count;

static void after_fork_in_child(void) {
  if (getpid() == own_pid) return;
  close_channel();
  rank_below_shell();
  forget_terminal();
  forget_directory();
}

/* More of them are not told apart. */
enum { MOST_ASYNCHRONOUS = 16 };

static pid_t asynchronous[MOST_ASYNCHRONOUS], last_noted;
static unsigned asynchronous_count;

/* Notes the last fork if it was asynchronous. bash sets the pid after fork() has returned, so the next fork does this, or the
 * end of the command. A 1 replaces a pid that has been reused. */
static void note_last_fork(void) {
  pid_t pid = last_asynchronous_pid;
  if (pid == last_noted) return;
  last_noted = pid;
  if (pid <= 1) return;
  if (asynchronous_count < MOST_ASYNCHRONOUS) asynchronous[asynchronous_count] = pid;
  asynchronous_count++;
}

static void after_fork_in_parent(void) {
  note_last_fork();
  fork_count++;
}

void begin_fork_count(void) {
  fork_count = asynchronous_count = 0;
  last_noted = last_asynchronous_pid;
}

uint32_t living_forks(void) {
  note_last_fork();
  if (asynchronous_count > MOST_ASYNCHRONOUS) return SUBSTITUTED;
  unsigned jobs = 0;
  uint32_t flags = 0;
  for (unsigned i = 0; i < asynchronous_count; i++) {
    if (kill(asynchronous[i], 0) < 0 && errno == ESRCH) continue;
    if (get_job_by_pid(asynchronous[i], 0, NULL) >= 0) {
      jobs++;
    } else {
      flags |= SUBSTITUTED;
    }
  }
  return jobs > 0 && jobs == fork_count ? ONLY_JOBS : flags;
}

void count_forks(void) {
  pthread_atfork(NULL, after_fork_in_parent, after_fork_in_child);
}

void become_shell(void) {
  int with_job_control = job_control;
  own_pid = getpid();
  is_standby = 0;
  dollar_dollar_pid = own_pid;
  set_ppid();
  without_job_control(); /* the jobs are children of another process */
  clear_fifo_list();
  if (coproc_flush) coproc_flush();
  subshell_environment = 0;
  original_pgrp = terminal_pgrp = -1;
  shell_pgrp = getpgrp();
  if (with_job_control) set_job_control(1);
}
