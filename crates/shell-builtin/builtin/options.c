/*
 * The options of `set -o` and `shopt`.
 *
 * bash changes some of them when certain variables are set or removed, like POSIXLY_CORRECT and GLOBIGNORE. A command
 * with such a variable of its own must leave the session's options as they were, except for those that it has changed
 * itself.
 */
#include "builtin.h"

#include <string.h>

/* The values in the order of bash's names. */
struct options {
  char *set, *shopt;
};

static struct options before, at_start;

/* BASHOPTS lacks what posix mode has changed. */
int shopt_is_on(const char *name) {
  static char quiet[] = "-q";
  WORD_LIST *words = make_word_list(make_bare_word(quiet), make_word_list(make_bare_word(name), NULL));
  int is_off = shopt_builtin(words);
  dispose_words(words);
  return !is_off;
}

void set_option(char *name, int on) {
  if (minus_o_option_value(name) == on) return;
  set_minus_o_option(on ? '-' : '+', name);
  set_shellopts();
}

/* The variable BASH_COMPAT sets those of compatibility. */
void set_shopt(char *name, int on) {
  if (shopt_is_on(name) != on && strncmp(name, "compat", 6) != 0) shopt_setopt(name, on);
}

static struct options current(void) {
  char **set = get_minus_o_opts(), **shopt = get_shopt_options();
  int sets = 0, shopts = 0;
  while (set[sets]) sets++;
  while (shopt[shopts]) shopts++;
  struct options options = {xmalloc(sets), xmalloc(shopts)};
  for (int i = 0; i < sets; i++) options.set[i] = minus_o_option_value(set[i]) == 1;
  for (int i = 0; i < shopts; i++) options.shopt[i] = shopt_is_on(shopt[i]);
  xfree(set);
  xfree(shopt);
  return options;
}

static void forget(struct options *options) {
  xfree(options->set);
  xfree(options->shopt);
  *options = (struct options){NULL, NULL};
}

int changes_options(const char *name) {
  static const char *const names[] = {"BASH_COMPAT", "GLOBIGNORE", "IGNOREEOF", "POSIXLY_CORRECT", "POSIX_PEDANTIC", "ignoreeof"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(name, names[i]) == 0) return 1;
  }
  return 0;
}

void save_options(void) {
  if (!before.set) before = current();
}

void note_changed_options(void) {
  if (before.set) at_start = current();
}

/* An option that the command has not changed gets its value from before the variable. */
void restore_options(void (*put_variables_back)(void)) {
  if (!at_start.set) {
    forget_options();
    put_variables_back();
    return;
  }
  struct options at_end = current();
  put_variables_back();
  char **names = get_minus_o_opts();
  for (int i = 0; names[i]; i++) {
    set_option(names[i], at_end.set[i] == at_start.set[i] ? before.set[i] : at_end.set[i]);
  }
  xfree(names);
  names = get_shopt_options();
  for (int i = 0; names[i]; i++) {
    set_shopt(names[i], at_end.shopt[i] == at_start.shopt[i] ? before.shopt[i] : at_end.shopt[i]);
  }
  xfree(names);
  forget_options();
  forget(&at_end);
}

void forget_options(void) {
  forget(&before);
  forget(&at_start);
}
