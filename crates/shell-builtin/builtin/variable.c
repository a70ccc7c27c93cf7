/*
 * Replaces a variable temporarily.
 *
 * bash keeps global variables as objects in a hash table. The object is removed as a whole and the same object is put
 * back, so that arrays, attributes, namerefs and dynamic variables return exactly as they were.
 */
#include "builtin.h"

#include <string.h>

SHELL_VAR *global_variable(const char *name) {
  BUCKET_CONTENTS *bucket = hash_search(name, global_variables->table, 0);
  return bucket ? bucket->data : NULL;
}

static SHELL_VAR *take_out(const char *name) {
  BUCKET_CONTENTS *bucket = hash_remove(name, global_variables->table, 0);
  if (!bucket) return NULL;
  SHELL_VAR *variable = bucket->data;
  xfree(bucket->key);
  xfree(bucket);
  return variable;
}

void apply_variable(const char *name) {
  array_needs_making = 1;
  stupidly_hack_special_variables((char *)name);
}

SHELL_VAR *replace_variable(const char *name, const char *value, int exported) {
  SHELL_VAR *former = take_out(name);
  if (value) {
    SHELL_VAR *variable = bind_variable(name, (char *)value, 0);
    if (variable && exported) variable->attributes |= att_exported;
  }
  apply_variable(name);
  return former;
}

void put_back_variable(const char *name, SHELL_VAR *former) {
  SHELL_VAR *temporary = take_out(name);
  if (temporary) dispose_variable(temporary);
  if (former) {
    char *key = copy_of(name);
    hash_insert(key, global_variables->table, HASH_NOSRCH)->data = former;
  }
  apply_variable(name);
}
