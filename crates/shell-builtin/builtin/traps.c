/*
 * Keeps traps after a failing `exec`, and keeps a background process with traps from replacing its shell.
 *
 * `exec` resets all traps before it tries the program, and calls exit() if that fails. Since bash 5.2, the texts of
 * the traps stay in bash's table. Older versions free the texts of signal and EXIT traps. So copies are made when a
 * command begins and after each `trap`; `trap` is replaced for that. `exec` itself cannot be replaced: bash
 * recognizes it by its function when it keeps redirections.
 *
 * bash's own recovery, which `shopt -s execfail` uses, is not used: it loses traps on SIGINT and SIGQUIT.
 */
#include "builtin.h"

#include <string.h>

static char ignored[1], *copies[NSIG];
static int copies_are_needed;
static struct sigaction child_action;

/* Returns the text of a trap, `ignored`, or NULL. The mark of an ignored signal may outlast it. */
static char *text_of(int trap) {
  return trap_list[trap] == (char *)SIG_IGN ? ignored : trap_list[trap];
}

void copy_traps(void) {
  if (!copies_are_needed) return;
  for (int trap = 0; trap < NSIG; trap++) {
    char *text = signal_is_trapped(trap) ? text_of(trap) : NULL;
    if (copies[trap] != ignored) xfree(copies[trap]);
    copies[trap] = text == ignored ? text : copy_of(text);
  }
}

static int trap_and_note(WORD_LIST *words) {
  int status = trap_builtin(words);
  copy_traps();
  keep_shell_for_traps();
  return status;
}

void prepare_traps(void) {
  sigaction(SIGCHLD, NULL, &child_action);
  copies_are_needed = is_before_bash_5_2();
  struct builtin *trap = builtin_address_internal("trap", 1);
  if (trap) trap->function = trap_and_note;
}

/* An ignored EXIT, DEBUG, ERR or RETURN loses only the mark that it is trapped: `ignore_signal` does nothing then. */
void ignore_again(int trap) {
  set_signal(trap, ignored);
  ignore_signal(trap);
}

void restore_traps_after_exec(void) {
  sigaction(SIGCHLD, &child_action, NULL);
  for (int trap = 0; trap <= RETURN_TRAP; trap++) {
    if (signal_is_trapped(trap)) continue;
    char *text = copies_are_needed && trap < NSIG ? copies[trap] : text_of(trap);
    if (text == ignored) {
      ignore_again(trap);
    } else if (text) {
      set_signal(trap, text);
    }
  }
}
