/*
 * The ways in which a command ends the shell: each of them ends only the command.
 *
 * bash leaves a command by a jump to `top_level`. Two ways need more. A failing `exec` calls exit() after it has reset the
 * signals. And `exit` with an EXIT trap, in a function below `eval`, `source` or a trap, would drop frames that then
 * could not be unwound: a replacement runs the trap first, where bash would run it, and unwinds in order.
 */
#include "builtin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

sigjmp_buf failed_exec;

static int exit_trap_ran;

void prepare_ends(void) {
  exit_trap_ran = 0;
}

/* ---- A failing `exec` ---- */

static void on_process_exit(int status, void *unused) {
  (void)unused;
  if (getpid() != own_pid || is_background || !in_command || this_shell_builtin != exec_builtin) return;
  last_command_exit_value = status;
  siglongjmp(failed_exec, 1);
}

static void register_process_exit(void) {
  on_exit(on_process_exit, NULL);
}

/* ---- The EXIT trap ---- */

/* Runs the trap, which stays set unless it removes itself. */
static int run_exit_trap_once(void) {
  announce_exit_trap();
  char *text = trap_list[EXIT_TRAP];
  char *saved = text ? strcpy(xmalloc(strlen(text) + 1), text) : NULL;
  run_trap_cleanup(EXIT_TRAP);
  int status = run_exit_trap();
  run_trap_cleanup(EXIT_TRAP);
  if (saved && !signal_is_trapped(EXIT_TRAP) && trap_list[EXIT_TRAP]) set_signal(EXIT_TRAP, saved);
  xfree(saved);
  exit_trap_ran = 1;
  return status;
}

/* ---- `exit` ---- */

static int would_drop_frames(void) {
  return parse_and_execute_level > OWN_LEVEL && variable_context > 0 && running_trap != EXIT_TRAP + 1 &&
         signal_is_trapped(EXIT_TRAP);
}

static int exit_in_order(WORD_LIST *words) {
  if (getpid() != own_pid || !in_command || subshell_environment || !would_drop_frames()) return exit_builtin(words);
  last_command_exit_value = get_exitstat(words);
  last_command_exit_value = run_exit_trap_once();
  top_level_cleanup();
  jump_to_top_level(is_bash_5_0() ? EXITPROG : EXITBLTIN);
}

void catch_exit(void) {
  struct builtin *exit = builtin_address_internal("exit", 1);
  if (exit) exit->function = exit_in_order;
  register_process_exit();
}

/* ---- After the end ---- */

static uint32_t status_of_signal(void) {
  if (!caught_signal) return 0;
  interrupt_state = 0;
  last_command_exit_value = 128 + (caught_signal == INTERRUPT ? SIGTERM : caught_signal);
  return caught_signal == INTERRUPT ? INTERRUPTED : SIGNALED;
}

uint32_t leave(enum end end, int with_trap) {
  volatile uint32_t flags = EXITED;
  if (end == EXEC_FAILED) {
    register_process_exit();
    if (unwind()) flags |= FRAMES_DISCARDED;
    initialize_signals(1);
    if (restore_traps) restore_traps();
    take_signals();
    return flags;
  }
  flags |= status_of_signal();
  if (with_trap && !exit_trap_ran && signal_is_trapped(EXIT_TRAP)) {
    volatile int signal = caught_signal, status = last_command_exit_value;
    caught_signal = 0;
    restore_notices();
    if (sigsetjmp(top_level, 0) == 0) last_command_exit_value = run_exit_trap_once();
    if (flags & INTERRUPTED) silence_notices();
    if (signal) {
      caught_signal = signal;
      last_command_exit_value = status;
    } else {
      flags |= status_of_signal(); /* it arrived in the trap */
    }
  }
  /* Traps and redirections are undone by bash's code, which may jump. */
  if (sigsetjmp(top_level, 0) == 0 && unwind()) flags |= FRAMES_DISCARDED;
  return flags;
}
