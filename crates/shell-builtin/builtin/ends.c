/*
 * The ways in which a command would end the shell. Each of them ends only the command.
 *
 * bash leaves a command by a jump to `top_level`. Two cases need more. A failing `exec` calls exit() after it has
 * reset the signals. And `exit` with an EXIT trap, in a function below `eval`, `source` or a trap, would drop frames
 * that could not be unwound afterwards. A replacement runs the trap first, where bash would run it, and unwinds in
 * order.
 */
#include "builtin.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

sigjmp_buf failed_exec;

static int exit_trap_ran, exit_was_trapped;

void prepare_ends(void) {
  exit_trap_ran = 0;
  copy_traps();
}

/* ---- A failing `exec` ---- */

/* Under errexit, bash calls exit() for an expansion error, after it has run the EXIT trap. */
static int is_expansion_error;

/* All other calls of exit() are bash's fatal errors: the shell dies, and the standby replaces it. */
static void on_process_exit(int status) {
  if (getpid() != own_pid || is_background || !in_command) return;
  if (this_shell_builtin != exec_builtin && !exit_immediately_on_error) return;
  is_expansion_error = this_shell_builtin != exec_builtin;
  exit_was_trapped = trap_list[EXIT_TRAP] && !signal_is_trapped(EXIT_TRAP);
  last_command_exit_value = status;
  siglongjmp(failed_exec, 1);
}

#if defined(__GLIBC__)

static void on_exit_with_status(int status, void *unused) {
  (void)unused;
  on_process_exit(status);
}

static void register_process_exit(void) {
  on_exit(on_exit_with_status, NULL);
}

#else

/*
 * Newer versions of musl hold a lock in exit() for ever: after a jump out of it, every fork would hang in its own exit().
 * So there the shell dies, and the standby replaces it with the state from before the command.
 */
static void register_process_exit(void) {
  (void)on_process_exit;
}

#endif

/* ---- The EXIT trap ---- */

/* Restores the EXIT trap: bash marks it as run and keeps its text, unless the trap has removed itself. */
static void set_exit_trap_again(const char *text) {
  if (text && !signal_is_trapped(EXIT_TRAP) && trap_list[EXIT_TRAP]) set_signal(EXIT_TRAP, (char *)text);
}

static char *exit_trap_text(void) {
  char *text = signal_is_ignored(EXIT_TRAP) ? NULL : trap_list[EXIT_TRAP];
  return copy_of(text);
}

/* Notifies the host that the trap is about to run. */
static void announce_exit_trap(void) {
  struct reply ending = {.kind = ENDING, .id = command_id, .pid = own_pid};
  if (!is_background) send_reply(&ending, "");
}

/* Runs the trap, which remains set unless it removes itself. */
static int run_exit_trap_once(void) {
  announce_exit_trap();
  char *saved = exit_trap_text();
  run_trap_cleanup(EXIT_TRAP);
  int status = run_exit_trap();
  run_trap_cleanup(EXIT_TRAP);
  set_exit_trap_again(saved);
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
  if (end == EXEC_FAILED && is_expansion_error) {
    register_process_exit();
    char *text = exit_was_trapped ? exit_trap_text() : NULL;
    run_trap_cleanup(EXIT_TRAP);
    set_exit_trap_again(text);
    xfree(text);
    exit_trap_ran = 1;
  } else if (end == EXEC_FAILED) {
    register_process_exit();
    if (unwind()) flags |= FRAMES_DISCARDED;
    initialize_signals(1);
    restore_traps_after_exec();
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
  /* bash's own code undoes traps and redirections, and may jump. */
  if (sigsetjmp(top_level, 0) == 0 && unwind()) flags |= FRAMES_DISCARDED;
  return flags;
}
