/*
 * Proves that a command kept the shell's state, so that the host need not renew its standby.
 *
 * bash's own parse tree decides before the command runs, and the way it ended afterwards. Only programs, a few
 * builtins without side effects, and what runs in forks can keep the state: anything not recognized here changes it.
 * `$?`, `$_`, PIPESTATUS and the hash table of programs do not count.
 */
#include "builtin.h"

#include <string.h>

static int kept, words_are_literal;

static int is_one_of(const char *name, const char *const *names) {
  for (; *names; names++) {
    if (strcmp(name, *names) == 0) return 1;
  }
  return 0;
}

/* ---- Words ---- */

/* Returns 1 if a word may undergo expansions other than patterns, braces and `~`. */
static int expands(const char *text) {
  int in_double_quotes = 0;
  for (; *text; text++) {
    if (*text == '\\') {
      if (!*++text) return 0;
    } else if (*text == '\'' && !in_double_quotes) {
      text = strchr(text + 1, '\'');
      if (!text) return 1;
    } else if (*text == '"') {
      in_double_quotes = !in_double_quotes;
    } else if (*text == '$' || *text == '`') {
      return 1;
    } else if ((*text == '<' || *text == '>') && text[1] == '(') {
      return 1;
    }
  }
  return 0;
}

static int is_fixed(const WORD_DESC *word) {
  return words_are_literal || !expands(word->word);
}

/* True for a name without quotes, patterns, braces or `~`, which is therefore exactly what runs. */
static int is_plain_name(const char *name) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-:,@";
  return *name && strspn(name, plain) == strlen(name);
}

/* The text of a word that is a single literal, plain or in one pair of quotes. Stores its length in `length`. */
static const char *literal(const char *word, size_t *length) {
  size_t size = strlen(word);
  *length = size;
  if (words_are_literal) return word;
  if (size >= 2 && (*word == '\'' || *word == '"') && strchr(word + 1, *word) == word + size - 1) {
    *length = size - 2;
    return word + 1;
  }
  return strpbrk(word, "'\"\\{}*?[]~()!+@") ? NULL : word;
}

/* `printf -v` and `%n` assign variables. */
static int format_assigns(const char *word) {
  size_t length;
  const char *text = literal(word, &length), *end = text + length;
  if (!text || *text == '-') return 1;
  for (; text < end; text++) {
    if (*text != '%') continue;
    do text++;
    while (text < end && strchr("-+ #0123456789.*'\\hlLqjzt", *text));
    if (text < end && *text == 'n') return 1;
  }
  return 0;
}

/* ---- Commands ---- */

static int builtin_keeps(const char *name, const WORD_LIST *arguments) {
  static const char *const harmless[] = {":", "true", "false", "echo", NULL};
  if (is_one_of(name, harmless)) return 1;
  if (strcmp(name, "pwd") == 0) return !arguments && !posixly_correct && the_current_working_directory;
  if (strcmp(name, "printf") == 0) return arguments && !format_assigns(arguments->word->word);
  return strcmp(name, "exit") == 0; /* no EXIT trap is set */
}

static int redirections_keep(const REDIRECT *one) {
  for (; one; one = one->next) {
    if (one->rflags & REDIR_VARASSIGN) return 0;
    switch (one->instruction) {
      case r_output_direction:
      case r_input_direction:
      case r_appending_to:
      case r_err_and_out:
      case r_append_err_and_out:
      case r_input_output:
      case r_output_force:
        if (!is_fixed(one->redirectee.filename)) return 0;
        break;
      case r_duplicating_input:
      case r_duplicating_output:
      case r_close_this:
        break;
      case r_reading_until:
      case r_deblank_reading_until:
      case r_reading_string:
        if (strpbrk(one->redirectee.filename->word, "$`")) return 0;
        break;
      default:
        return 0;
    }
  }
  return 1;
}

static int simple_keeps(const SIMPLE_COM *simple) {
  const WORD_LIST *words = simple->words;
  if (!words || !redirections_keep(simple->redirects)) return 0;
  for (const WORD_LIST *one = words; one; one = one->next) {
    if (!is_fixed(one->word)) return 0;
  }
  const char *name = words->word->word;
  if (words->word->flags & W_ASSIGNMENT && !words_are_literal) return 0;
  if (words_are_literal ? *name == '%' : !is_plain_name(name)) return 0;
  if (!words_are_literal && find_function(name)) return 0;
  return !builtin_address_internal(name, 0) || builtin_keeps(name, words->next);
}

static int command_keeps(const COMMAND *command) {
  const int harmless = CMD_INVERT_RETURN | CMD_IGNORE_RETURN | CMD_TIME_PIPELINE | CMD_TIME_POSIX |
                       (words_are_literal ? CMD_INHIBIT_EXPANSION | CMD_NO_FUNCTIONS : 0);
  if (command->type == cm_subshell) {
    /* Its redirections happen in the fork. */
    return !(command->flags & ~(harmless | CMD_WANT_SUBSHELL | CMD_FORCE_SUBSHELL));
  }
  if (command->flags & ~harmless || command->redirects) return 0;
  if (command->type == cm_simple) return simple_keeps(command->value.Simple);
  if (command->type != cm_connection) return 0;
  const CONNECTION *connection = command->value.Connection;
  switch (connection->connector) {
    case '&':
      return 0;
    case '|':
      return !lastpipe_opt; /* each element runs in a fork */
    default:                /* ; && || */
      return command_keeps(connection->first) && command_keeps(connection->second);
  }
}

/* ---- The proof ---- */

static int traps_are_set(void) {
  return any_signals_trapped() >= 0 || signal_is_trapped(EXIT_TRAP) || signal_is_trapped(DEBUG_TRAP) ||
         signal_is_trapped(ERROR_TRAP) || signal_is_trapped(RETURN_TRAP);
}

static int options_change_state(void) {
  return read_but_dont_execute || just_one_command || echo_command_at_execute || job_control || place_keywords_in_env;
}

void begin_proof(uint32_t flags) {
  words_are_literal = (flags & ARGV) != 0;
  int is_changed = take_idle_trap();
  kept = !(flags & ENGINE) && !is_background && !is_changed && scope_keeps_state() && !options_change_state() &&
         !traps_are_set();
}

void prove(const COMMAND *command) {
  kept = kept && command_keeps(command);
}

void disprove(void) {
  kept = 0;
}

int state_is_kept(const struct outcome *outcome) {
  return kept && !outcome->signal && !(outcome->flags & (SIGNALED | INTERRUPTED | FRAMES_DISCARDED));
}
