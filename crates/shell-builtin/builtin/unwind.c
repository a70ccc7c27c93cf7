/*
 * Returns to the top level from wherever a command ended.
 *
 * bash keeps a list of everything to undo when it leaves a frame: local variables, redirections, positional
 * parameters. Running the list restores bash. In two cases bash itself drops part of that list without running it:
 * `set -e`, and `exit` with an EXIT trap, in a function below `eval`, `source` or a trap. This file repairs the
 * leftovers: variable contexts, FUNCNAME and its companions, arguments, IFS, traps. Descriptors opened by
 * redirections on that very call stay open, which a flag reports to the host.
 */
#include "builtin.h"

#include <string.h>

static const int special_traps[] = {DEBUG_TRAP, ERROR_TRAP, RETURN_TRAP};
enum { SPECIAL_TRAPS = sizeof special_traps / sizeof *special_traps };

static int base_depth;

/* Set if bash has unwound everything by itself, as it does before it abandons a whole text. */
static int everything_unwound;
static char *base_traps[SPECIAL_TRAPS];

static void note_unwound(void *unused) {
  (void)unused;
  everything_unwound = 1;
  parse_and_execute_level = 0;
}

/* The frame has the name that bash gives to the frame of each evaluation, and searches for. */
void mark_bottom(void) {
  static char evaluation[] = "parse_and_execute top";
  everything_unwound = 0;
  begin_unwind_frame(evaluation);
  add_unwind_protect(note_unwound, NULL);
}

void forget_bottom(void) {
  clear_unwind_protect_list(1);
}

int is_all_unwound(void) {
  return everything_unwound;
}

void mark_base(void) {
  base_depth = array_length("FUNCNAME");
  for (int i = 0; i < SPECIAL_TRAPS; i++) {
    int trap = special_traps[i];
    xfree(base_traps[i]);
    /* An ignored signal has no text. */
    int has_text = signal_is_trapped(trap) && !signal_is_ignored(trap) && trap_list[trap];
    base_traps[i] = has_text ? copy_of(trap_list[trap]) : NULL;
  }
}

static void shorten(const char *name, int length) {
  SHELL_VAR *variable = find_variable(name);
  for (int left = array_length(name) - length; left > 0; left--) {
    array_dispose_element(array_shift((ARRAY *)variable->value, 1, 0));
  }
}

/* Functions clear these traps while they run, unless they are set to inherit them. */
static void restore_special_traps(void) {
  for (int i = 0; i < SPECIAL_TRAPS; i++) {
    if (base_traps[i] && !signal_is_trapped(special_traps[i])) set_signal(special_traps[i], base_traps[i]);
  }
}

static void repair_dropped_frames(int functions) {
  while (shell_variables != global_variables) {
    VAR_CONTEXT *left = shell_variables;
    shell_variables = left->down;
    dispose_var_context(left);
  }
  restore_special_traps();
  sv_ifs("IFS");
  for (int i = functions + 1; i > 0; i--) pop_dollar_vars();
  shorten("FUNCNAME", base_depth);
  shorten("BASH_SOURCE", base_depth);
  shorten("BASH_LINENO", base_depth);
}

static void end_traps(void) {
  static const int handled[] = {DEBUG_TRAP, ERROR_TRAP, RETURN_TRAP, EXIT_TRAP};
  if (running_trap > 0) run_trap_cleanup(running_trap - 1);
  running_trap = 0;
  for (size_t i = 0; i < sizeof handled / sizeof *handled; i++) run_trap_cleanup(handled[i]);
}

int unwind(void) {
  top_level_cleanup();
  end_traps();
  unfreeze_jobs_list();
  /* An interrupt came between a fork and the wait for it: the next command would wait for that child. */
  cleanup_the_pipeline();
  stop_making_children();
  int functions = array_length("FUNCNAME") - base_depth;
  int dropped = functions > 0 || shell_variables != global_variables;
  if (dropped) repair_dropped_frames(functions > 0 ? functions : 0);
  variable_context = sourcelevel = evalnest = funcnest = executing_builtin = 0;
  this_shell_function = NULL;
  subst_assign_varlist = NULL;
  if (temporary_env) dispose_used_env_vars();
  reset_parser();
  if (restore_sigmask) restore_sigmask();
  interrupt_state = 0;
  return dropped;
}
