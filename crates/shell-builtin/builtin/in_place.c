/*
 * The last command of a background process replaces the shell, as with `bash -c`: the program is the process, and its exit
 * code and signals are the process's.
 */
#include "builtin.h"

#include <string.h>

/* The command that will. */
static COMMAND *in_place;

/* True if a trap needs the shell until the end. */
static int has_traps(void) {
  return any_signals_trapped() >= 0 || signal_is_trapped(EXIT_TRAP) || signal_is_trapped(ERROR_TRAP);
}

/* True if the text of a command has a process substitution, perhaps in quotes. */
static int may_substitute(const SIMPLE_COM *simple) {
  for (const WORD_LIST *one = simple->words; one; one = one->next) {
    if (strstr(one->word->word, ">(") || strstr(one->word->word, "<(")) return 1;
  }
  for (const REDIRECT *one = simple->redirects; one; one = one->next) {
    int is_file = one->instruction == r_output_direction || one->instruction == r_appending_to ||
                  one->instruction == r_err_and_out || one->instruction == r_append_err_and_out ||
                  one->instruction == r_input_direction || one->instruction == r_output_force;
    if (is_file && strpbrk(one->redirectee.filename->word, "<>")) return 1;
  }
  return 0;
}

void run_in_place(COMMAND *command) {
  const int exempt = CMD_TIME_PIPELINE | CMD_INVERT_RETURN;
  if (job_control || running_trap || has_traps()) return;
  while (command->type == cm_connection && command->value.Connection->connector != '|' &&
         command->value.Connection->connector != '&' && !command->redirects && !(command->flags & exempt)) {
    command = command->value.Connection->second;
  }
  if (command->type != cm_simple || command->redirects || command->flags & exempt) return;
  if (leads_terminal && may_substitute(command->value.Simple)) return;
  command->flags |= CMD_NO_FORK;
  command->value.Simple->flags |= CMD_NO_FORK;
  in_place = command;
}

void keep_shell_for_traps(void) {
  if (!in_place || !has_traps()) return;
  in_place->flags &= ~CMD_NO_FORK;
  in_place->value.Simple->flags &= ~CMD_NO_FORK;
  in_place = NULL;
}

void forget_in_place(void) {
  in_place = NULL;
}
