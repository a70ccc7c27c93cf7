/*
 * Writes the shell's state as text, in a fork that then exits.
 *
 * The functions behind bash's builtins are called directly, with a list of words. So the user's options, functions,
 * aliases, traps and disabled builtins have no effect. The host restores the state from the text if shell and standby
 * are both lost. Each section ends with NUL, in the order in which the host reads them, and `END` follows.
 */
#include "builtin.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static WORD_LIST *prepend(const char *word, WORD_LIST *list) {
  return make_word_list(make_bare_word(word), list);
}

/* A jump out of a builtin, as after an error, leaves only this section incomplete, not the file. */
static void print(const char *name, WORD_LIST *arguments) {
  struct builtin *builtin = builtin_address_internal(name, 1);
  if (!builtin) return;
  this_shell_builtin = builtin->function;
  if (sigsetjmp(top_level, 0) == 0) builtin->function(arguments);
}

static void end_section(void) {
  putchar('\0');
}

static void section(const char *name, const char *option) {
  print(name, prepend(option, NULL));
  end_section();
}

static void text_section(const char *text) {
  fputs(text, stdout);
  end_section();
}

/* Prints words, quoted, with a space after each. */
static void word_section(WORD_LIST *words) {
  print("printf", prepend("%q ", words));
  end_section();
}

static WORD_LIST *arguments(void) {
  char count[16];
  snprintf(count, sizeof count, "%d", number_of_args());
  return prepend(dollar_vars[0] ? dollar_vars[0] : "bash", prepend(count, list_rest_of_args()));
}

void write_checkpoint(int fd) {
  if (fd < 0) _exit(1);
  dup2(fd, STDOUT_FILENO);
  int null = open("/dev/null", O_RDWR);
  if (null != STDERR_FILENO) dup2(null, STDERR_FILENO);
  /* posix mode changes the format of most sections. */
  int posix_mode = posixly_correct;
  posixly_correct = 0;
  section("trap", "-p");
  posixly_correct = posix_mode;
  section("set", "+o");
  section("shopt", "-p");
  posixly_correct = 0;
  const char *directory = get_string_value("PWD");
  text_section(directory ? directory : "");
  section("umask", "-p");
  section("declare", "-p");
  text_section(""); /* local variables: there is no function */
  section("declare", "-f");
  section("declare", "-F");
  section("alias", "-p");
  word_section(arguments());
  word_section(get_directory_stack(0));
  section("complete", "-p");
  section("hash", "-l");
  section("enable", "-n");
  text_section(""); /* not in a function */
  text_section("END");
  _exit(fflush(stdout) == 0 ? 0 : 1);
}
