/*
 * Checks whether `bash.h` describes the running bash.
 *
 * The structures have been the same since bash 5.0, except for arrays, which lost a member in 5.2. An unknown version
 * is refused. So is a known version with an object that does not look as declared, which other build options may
 * cause.
 */
#include "builtin.h"

#include <string.h>

static int starts_with(const char *text, const char *start) {
  return strncmp(text, start, strlen(start)) == 0;
}

int is_bash_5_0(void) {
  return strcmp(dist_version, "5.0") == 0;
}

int is_before_bash_5_2(void) {
  return is_bash_5_0() || strcmp(dist_version, "5.1") == 0;
}

static int version_is_known(void) {
  static const char *const known[] = {"5.0", "5.1", "5.2", "5.3"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(dist_version, known[i]) == 0) return 1;
  }
  return 0;
}

/* The beginning of `ARRAY`, before bash 5.2 and since then. */
struct array_5_0 {
  int type;
  intmax_t max_index;
  int length;
};
struct array_5_2 {
  intmax_t max_index;
  intmax_t length;
};

int array_length(const char *name) {
  SHELL_VAR *variable = find_variable(name);
  if (!variable || !(variable->attributes & att_array) || !variable->value) return 0;
  if (is_before_bash_5_2()) return ((struct array_5_0 *)variable->value)->length;
  return ((struct array_5_2 *)variable->value)->length;
}

static int variables_are_as_declared(void) {
  SHELL_VAR *version = find_variable("BASH_VERSION");
  if (!version || strcmp(version->name, "BASH_VERSION") != 0 || !starts_with(version->value, dist_version)) return 0;
  if (version->context != 0 || version->attributes & (att_array | att_exported)) return 0;
  if (global_variables->scope != 0 || global_variables->down) return 0;
  BUCKET_CONTENTS *bucket = hash_search("BASH_VERSION", global_variables->table, 0);
  if (!bucket || bucket->data != version || strcmp(bucket->key, "BASH_VERSION") != 0) return 0;
  return array_length("BASH_VERSINFO") == 6;
}

static int commands_are_as_declared(void) {
  COMMAND *command = make_bare_simple_command(1);
  SIMPLE_COM *simple = command->value.Simple;
  int known = command->type == cm_simple && command->flags == 0 && !command->redirects && simple->flags == 0 &&
              !simple->words && !simple->redirects;
  dispose_command(command);
  return known;
}

/* Checks the input of the shell, which was started with `-c`: a string of that name. */
static int input_is_as_declared(void) {
  return bash_input.type == ST_STRING && bash_input.name && strcmp(bash_input.name, "-c") == 0;
}

static int builtins_are_as_declared(BUILTIN_FUNCTION *own) {
  struct builtin *exit = builtin_address_internal("exit", 1);
  struct builtin *last = builtin_address_internal("nacre", 1);
  return exit && exit->function == exit_builtin && last && last->function == own && last->flags & BUILTIN_ENABLED;
}

int layout_is_known(BUILTIN_FUNCTION *own) {
  return version_is_known() && variables_are_as_declared() && commands_are_as_declared() && input_is_as_declared() &&
         builtins_are_as_declared(own);
}
