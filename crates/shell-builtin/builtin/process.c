/*
 * Distinguishes the shell itself from its forks.
 *
 * bash forks for subshells, pipelines and programs. `pthread_atfork` handlers close the channel in those children, so
 * that no subshell can see it. They also count the forks for the host, which need not look for leftovers of a command
 * without forks.
 */
#include "builtin.h"

#include <pthread.h>
#include <unistd.h>

pid_t own_pid;
int is_background, is_standby;
unsigned fork_count;

static void after_fork_in_child(void) {
  if (getpid() == own_pid) return;
  close_channel();
  forget_terminal();
  forget_directory();
}

static void after_fork_in_parent(void) {
  fork_count++;
}

void count_forks(void) {
  pthread_atfork(NULL, after_fork_in_parent, after_fork_in_child);
}

void become_shell(void) {
  int with_job_control = job_control;
  give_up_standby_name();
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
