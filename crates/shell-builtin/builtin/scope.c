/*
 * A command's own directory, environment and limits.
 *
 * The shell applies them for one command and restores everything however the command ends. A background process keeps
 * them. If any cannot be applied, the command is refused: nothing runs, and nothing changes.
 */
#include "builtin.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* A replaced variable. The list is in the order of replacement, the latest first. */
struct replaced {
  struct replaced *next;
  SHELL_VAR *former;
  char name[];
};

static struct replaced *replaced;
static int directory_is_saved, limits_are_set, hooks_are_harmless;
static HASH_TABLE *saved_programs;
static int programs_are_saved;

static struct rlimit saved_files, saved_processes;
static int files_are_set, processes_are_set;

/* ---- Limits ---- */

/* Keeps the hard limit if that allows the value: without privileges, the shell could not raise it again. */
static int set_limit(int resource, uint64_t value, struct rlimit *saved, int *set) {
  *set = 0;
  if (value == UNLIMITED) return 1;
  if (getrlimit(resource, saved) < 0) return 0;
  struct rlimit limit = {value, is_background || value > saved->rlim_max ? value : saved->rlim_max};
  *set = setrlimit(resource, &limit) == 0;
  return *set;
}

static int enter_limits(const struct request *request, struct refusal_report *refused) {
  refused->reason = REFUSED_LIMIT;
  refused->text = "openFiles";
  if (!set_limit(RLIMIT_NOFILE, request->open_files, &saved_files, &files_are_set)) return 0;
  refused->text = "pids";
  if (!set_limit(RLIMIT_NPROC, request->processes, &saved_processes, &processes_are_set)) return 0;
  return 1;
}

static void leave_limits(void) {
  if (processes_are_set) setrlimit(RLIMIT_NPROC, &saved_processes);
  if (files_are_set) setrlimit(RLIMIT_NOFILE, &saved_files);
  processes_are_set = files_are_set = 0;
}

/* ---- Variables ---- */

static void replace(const char *name, size_t length, const char *value, int exported) {
  struct replaced *one = xmalloc(sizeof *one + length + 1);
  memcpy(one->name, name, length);
  one->name[length] = '\0';
  /* A new PATH empties the hash table of programs: the session's own is saved. */
  if (!programs_are_saved && strcmp(one->name, "PATH") == 0) {
    programs_are_saved = 1;
    saved_programs = hashed_filenames;
    hashed_filenames = NULL;
  }
  one->former = replace_variable(one->name, value, exported);
  one->next = replaced;
  replaced = one;
}

static void put_all_back(void) {
  while (replaced) {
    struct replaced *one = replaced;
    replaced = one->next;
    put_back_variable(one->name, one->former);
    xfree(one);
  }
  if (!programs_are_saved) return;
  phash_flush();
  if (hashed_filenames) hash_dispose(hashed_filenames);
  hashed_filenames = saved_programs;
  programs_are_saved = 0;
}

static int is_read_only(const char *name) {
  SHELL_VAR *variable = global_variable(name);
  return variable && variable->attributes & att_readonly;
}

/* Sets `PWD` and `OLDPWD`, keeping their attributes. A read-only variable stays unchanged, as with `cd`. */
static void name_directory(const char *name, const char *value) {
  SHELL_VAR *variable = global_variable(name);
  int exported = !variable || variable->attributes & att_exported;
  if (value && !is_read_only(name)) replace(name, strlen(name), value, exported);
}

/* Variables whose change is known to be undone exactly, for the proof that a command kept the state. bash derives
   something from these others, and may not restore all of it. */
static int is_harmless(const char *name) {
  static const char *const known[] = {"PATH", "TZ", "LANG", "LANGUAGE", "TERM"};
  static const char *const derived[] = {"BASH", "COMP", "HIST", "MAIL", "OPT", "IGNORE", "POSIX", "GLOB", "TERM", "TEXT",
                                        "IFS",  "LC_",  "LANG", "FUNC", "EXEC", "CHILD", "COL", "LINE", "EMACS", "INSIDE",
                                        "HOST", "PS",   "hist", "ignore", "TMOUT", "SHELL", "RANDOM", "SECONDS", "SRANDOM"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    if (strcmp(name, known[i]) == 0) return 1;
  }
  for (size_t i = 0; i < sizeof derived / sizeof *derived; i++) {
    if (strncmp(name, derived[i], strlen(derived[i])) == 0) return 0;
  }
  return 1;
}

/* An entry is `NAME=value`, or `NAME` to unset it. */
static int enter_environment(const char *entries, size_t length, struct refusal_report *refused) {
  static char name[4096];
  for (const char *entry = entries; entry < entries + length; entry += strlen(entry) + 1) {
    const char *equals = strchr(entry, '=');
    size_t name_length = equals ? (size_t)(equals - entry) : strlen(entry);
    if (name_length == 0 || name_length >= sizeof name) continue;
    memcpy(name, entry, name_length);
    name[name_length] = '\0';
    if (is_read_only(name)) {
      *refused = (struct refusal_report){REFUSED_READ_ONLY, EPERM, name};
      return 0;
    }
    hooks_are_harmless = hooks_are_harmless && is_harmless(name);
    if (changes_options(name)) save_options();
    replace(name, name_length, equals ? equals + 1 : NULL, 1);
  }
  note_changed_options();
  return 1;
}

/* ---- The whole ---- */

static int enter_directory(const char *path, size_t length, struct refusal_report *refused) {
  char *copy = memcpy(xmalloc(length + 1), path, length);
  copy[length] = '\0';
  *refused = (struct refusal_report){REFUSED_CWD, 0, ""};
  directory_is_saved = save_directory();
  int entered = directory_is_saved && change_directory(copy);
  refused->error = errno;
  xfree(copy);
  if (!entered) return 0;
  const char *former = get_string_value("PWD");
  name_directory("OLDPWD", former);
  name_directory("PWD", the_current_working_directory);
  return 1;
}

static char *last_part_ended(const struct message *message) {
  const struct request *request = message->request;
  char *copy = memcpy(xmalloc(request->env_length + 1), message->payload + request->text_length + request->cwd_length,
                      request->env_length);
  copy[request->env_length] = '\0';
  return copy;
}

int enter_scope(const struct message *message, struct refusal_report *refused) {
  const struct request *request = message->request;
  hooks_are_harmless = 1;
  int entered = 1;
  if (request->cwd_length > 0) {
    entered = enter_directory(message->payload + request->text_length, request->cwd_length, refused);
  }
  if (entered && request->env_length > 0) {
    char *entries = last_part_ended(message);
    entered = enter_environment(entries, request->env_length, refused);
    xfree(entries);
  }
  if (entered && (request->open_files != UNLIMITED || request->processes != UNLIMITED)) {
    entered = enter_limits(request, refused);
    if (!entered) refused->error = errno;
    limits_are_set = 1;
  }
  if (!entered) leave_scope();
  return entered;
}

void leave_scope(void) {
  if (limits_are_set) leave_limits();
  limits_are_set = 0;
  restore_options(put_all_back);
  if (directory_is_saved) restore_directory();
  directory_is_saved = 0;
}

/* Makes the command's directory and variables those of the session. */
void keep_scope(void) {
  while (replaced) {
    struct replaced *one = replaced;
    replaced = one->next;
    if (one->former) dispose_variable(one->former);
    xfree(one);
  }
  if (programs_are_saved && saved_programs) hash_dispose(saved_programs);
  programs_are_saved = 0;
  forget_options();
  forget_directory();
  directory_is_saved = limits_are_set = files_are_set = processes_are_set = 0;
}

int scope_keeps_state(void) {
  return hooks_are_harmless;
}
