/*
 * A shell's state as a list of items, written in a fork that then exits, and restored in a new shell.
 *
 * Each item (a variable, a function, an option, ...) is written and restored by itself, through the functions behind
 * bash's own commands. So nothing of a value is evaluated, neither options, functions, aliases nor traps of the user
 * have an effect, and what cannot be restored loses no other item. The host stores the list. It reads only the last item,
 * `$?`, the directory, and what a new shell cannot have: jobs and descriptors.
 *
 * bash computes some variables, like RANDOM. Of these, it is kept whether they are exported, read-only, traced or unset.
 */
#include "builtin.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

enum kind {
  VARIABLE = 1, /* attributes, name, and the value of a string, or the size of an associative array's table */
  ELEMENT,      /* of the array before it: key and value */
  ALIAS,        /* name and text */
  FUNCTION,     /* attributes, name, and a definition under the name of `function_name` */
  COMPLETION,   /* name: the command; value: `struct compspec`, whose texts follow as items */
  COMPLETION_TEXT, /* number: which one */
  PUSHED,       /* a directory of the stack, the last one first */
  ARGUMENT,     /* $0, then the others */
  PROGRAM,      /* of the hash table: number: flags; name, path */
  DISABLED,     /* a builtin */
  OPTION,       /* of `set -o`: number: whether it is on */
  SHOPT,        /* the same for `shopt` */
  DIRECTORY,    /* logical and physical name; no physical name if it has been removed */
  TRAP,         /* number: the signal; value: text */
  TRAP_IGNORED, /* number: the signal */
  UMASK,        /* number */
  LIMIT,        /* number: the resource; value: `struct rlimit` */
  RESTRICTED,
  JOBS,         /* value: those that have not ended, as the builtin `jobs` lists them; not restored */
  DESCRIPTORS,  /* value: the numbers of those that the user has opened, with blanks; not restored */
  STATUS,       /* number: `$?`, which the host passes with the list */
  LAST = 0x454e444e /* number: whether the shell holds something of a mount, see `holds_mount` */
};

/* Name and value follow, each with a NUL that its length does not count. */
struct item {
  uint32_t kind, number, name_length, value_length;
};

enum { MOST_BUCKETS = 1 << 24 };

/* In the number of a VARIABLE, beside its attributes. */
enum { HAS_VALUE = 1 << 30, COMPUTED = 1 << 29 };

enum {
  KEPT_ATTRIBUTES = att_exported | att_readonly | att_array | att_integer | att_assoc | att_trace | att_uppercase |
                    att_lowercase | att_capcase | att_nameref | att_invisible
};

static char function_name[] = "nacre";

static int is_computed(const SHELL_VAR *variable) {
  return variable->dynamic_value || variable->assign_func;
}

/* ---- Writing ---- */

static void write_item(enum kind kind, uint32_t number, const char *name, const void *value, size_t length) {
  struct item item = {kind, number, strlen(name), length};
  fwrite(&item, sizeof item, 1, stdout);
  fwrite(name, 1, item.name_length + 1, stdout);
  fwrite(value, 1, length, stdout);
  putchar('\0');
}

static void write_text(enum kind kind, uint32_t number, const char *name, const char *value) {
  write_item(kind, number, name, value, strlen(value));
}

static void for_each(HASH_TABLE *table, void (*act)(BUCKET_CONTENTS *)) {
  for (int i = 0; table && i < table->nbuckets; i++) {
    for (BUCKET_CONTENTS *one = table->bucket_array[i]; one; one = one->next) act(one);
  }
}

static void write_array(ARRAY *array) {
  WORD_LIST *key = array_keys_to_word_list(array);
  for (WORD_LIST *value = array_to_word_list(array); value; value = value->next, key = key->next) {
    write_text(ELEMENT, 0, key->word->word, value->word->word);
  }
}

/* The last one first: bash puts a new element before the others, and so restores their order. */
static void write_map(HASH_TABLE *table) {
  BUCKET_CONTENTS **elements = xmalloc((table->nentries + 1) * sizeof *elements);
  int count = 0;
  for (int i = 0; i < table->nbuckets; i++) {
    for (BUCKET_CONTENTS *one = table->bucket_array[i]; one; one = one->next) elements[count++] = one;
  }
  while (count-- > 0) {
    const char *value = elements[count]->data;
    write_text(ELEMENT, 0, elements[count]->key, value ? value : "");
  }
}

static void write_variable(BUCKET_CONTENTS *bucket) {
  const SHELL_VAR *variable = bucket->data;
  uint32_t number = variable->attributes & KEPT_ATTRIBUTES;
  if (is_computed(variable)) {
    /* Both are computed from what was assigned to them. */
    int is_assigned = strcmp(variable->name, "SECONDS") == 0 ||
                      (strcmp(variable->name, "COMP_WORDBREAKS") == 0 && variable->value);
    const char *kept = is_assigned ? get_string_value(variable->name) : NULL;
    write_text(VARIABLE, number | COMPUTED | (kept ? HAS_VALUE : 0), variable->name, kept ? kept : "");
    return;
  }
  if (variable->value) number |= HAS_VALUE;
  int has_text = variable->value && !(number & (att_array | att_assoc));
  char buckets[16] = "";
  if (variable->value && number & att_assoc) {
    snprintf(buckets, sizeof buckets, "%d", ((HASH_TABLE *)variable->value)->nbuckets);
  }
  write_text(VARIABLE, number, variable->name, has_text ? variable->value : buckets);
  if (variable->value && number & att_array) write_array((ARRAY *)variable->value);
  if (variable->value && number & att_assoc) write_map((HASH_TABLE *)variable->value);
}

static void write_alias(BUCKET_CONTENTS *bucket) {
  const struct alias *alias = bucket->data;
  write_text(ALIAS, 0, alias->name, alias->value);
}

static void write_function(BUCKET_CONTENTS *bucket) {
  const SHELL_VAR *function = bucket->data;
  if (!function->value) return;
  const char *text = named_function_string(function_name, (COMMAND *)function->value, FUNC_MULTILINE);
  write_text(FUNCTION, function->attributes & KEPT_ATTRIBUTES, function->name, text);
}

static void write_completion(BUCKET_CONTENTS *bucket) {
  const struct compspec *one = bucket->data;
  write_item(COMPLETION, 0, bucket->key, one, sizeof *one);
  for (size_t i = 0; i < COMPSPEC_TEXTS; i++) {
    if (one->texts[i]) write_text(COMPLETION_TEXT, i, "", one->texts[i]);
  }
}

static void write_program(BUCKET_CONTENTS *bucket) {
  const struct path_data *program = bucket->data;
  write_text(PROGRAM, program->flags, bucket->key, program->path);
}

/* The first directory of the stack is the current one. */
static void write_pushed(const WORD_LIST *directories) {
  if (!directories) return;
  write_pushed(directories->next);
  write_text(PUSHED, 0, "", directories->word->word);
}

static void write_arguments(void) {
  write_text(ARGUMENT, 0, "", dollar_vars[0] ? dollar_vars[0] : "bash");
  for (const WORD_LIST *one = list_rest_of_args(); one; one = one->next) {
    write_text(ARGUMENT, 0, "", one->word->word);
  }
}

/* `posix` changes some options of `shopt`, and `extdebug` some of `set`. */
static void write_options(void) {
  write_text(OPTION, posixly_correct, "posix", "");
  for (char **name = get_shopt_options(); *name; name++) write_text(SHOPT, shopt_is_on(*name), *name, "");
  for (char **name = get_minus_o_opts(); *name; name++) {
    write_text(OPTION, minus_o_option_value(*name) == 1, *name, "");
  }
}

static void write_directory(void) {
  const char *logical = the_current_working_directory, *physical = getcwd(NULL, 0);
  if (!physical) return write_text(DIRECTORY, 0, logical ? logical : "", "");
  write_text(DIRECTORY, 0, leads_here(logical) ? logical : physical, physical);
}

static void write_traps(void) {
  for (int trap = 0; trap <= RETURN_TRAP; trap++) {
    if (!signal_is_trapped(trap)) continue;
    if (trap_list[trap] == (char *)SIG_IGN) {
      write_text(TRAP_IGNORED, trap, "", "");
    } else if (trap_list[trap]) {
      write_text(TRAP, trap, "", trap_list[trap]);
    }
  }
}

static void write_limits(void) {
  for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
    struct rlimit limit;
    /* The kernel does not use them: they mark what belongs to the supervisor, and what has the same origin
     * (crates/containment/src/session_mark.rs and descent_mark.rs). */
    if (resource == RLIMIT_LOCKS || getrlimit(resource, &limit) < 0) continue;
    if (resource == RLIMIT_RSS && limit.rlim_cur >> DESCENT_MARK_BIT == 1) continue;
    write_item(LIMIT, resource, "", &limit, sizeof limit);
  }
}

/* True for a named pipe and a locked file, which would not be shared with what is opened on another mount, and for a
 * directory, from which paths would still lead through the old one. */
static int descriptor_holds_mount(int fd) {
  struct stat status;
  struct statfs system;
  if (fstat(fd, &status) < 0) return 0;
  if (S_ISDIR(status.st_mode)) return 1;
  if (S_ISFIFO(status.st_mode)) return fstatfs(fd, &system) < 0 || system.f_type != PIPEFS_MAGIC;
  if (!S_ISREG(status.st_mode)) return 0;
  char name[64], text[4096];
  snprintf(name, sizeof name, "/proc/self/fdinfo/%d", fd);
  int info = open(name, O_RDONLY | O_CLOEXEC);
  ssize_t length = info < 0 ? -1 : read(info, text, sizeof text - 1);
  if (info >= 0) close(info);
  if (length < 0) return 1;
  text[length] = '\0';
  return strstr(text, "\nlock:") != NULL;
}

/* Whether the shell holds something of a mount of the workspace, and so cannot change over to another one. It is looked up
 * here, because nothing else can: the kernel hides the descriptors of a shell. */
static int holds_mount(void) {
  if (!can_reenter_directory()) return 1;
  DIR *descriptors = opendir("/proc/self/fd");
  if (!descriptors) return 1;
  struct dirent *entry;
  int holds = 0;
  while (!holds && (entry = readdir(descriptors))) {
    int fd = atoi(entry->d_name);
    holds = *entry->d_name != '.' && fd != dirfd(descriptors) && descriptor_holds_mount(fd);
  }
  closedir(descriptors);
  return holds;
}

/* Bytes of the lists of jobs and descriptors that are kept. */
enum { MOST_JOB_TEXT = 64 * 1024, MOST_DESCRIPTOR_TEXT = 1024 };

/* What the builtin `jobs` prints of those that have not ended. Returns its length, and leaves another standard output. */
static size_t list_jobs(char *text) {
  int list = syscall(SYS_memfd_create, "jobs", MFD_CLOEXEC);
  if (list < 0 || dup2(list, STDOUT_FILENO) < 0) return 0;
  list_running_jobs(0);
  list_stopped_jobs(0);
  fflush(stdout);
  ssize_t length = pread(list, text, MOST_JOB_TEXT, 0);
  close(list);
  return length < 0 ? 0 : length;
}

/* The descriptors of the user. Those of nacre and of bash itself are closed on exec. */
static void list_descriptors(char *text) {
  size_t length = 0;
  *text = '\0';
  DIR *descriptors = opendir("/proc/self/fd");
  if (!descriptors) return;
  for (struct dirent *entry; (entry = readdir(descriptors));) {
    int fd = atoi(entry->d_name);
    int flags = fd > STDERR_FILENO ? fcntl(fd, F_GETFD) : -1;
    if (flags < 0 || flags & FD_CLOEXEC || length + sizeof " 2147483647" > MOST_DESCRIPTOR_TEXT) continue;
    length += sprintf(text + length, length ? " %d" : "%d", fd);
  }
  closedir(descriptors);
}

void write_checkpoint(int file) {
  static char jobs[MOST_JOB_TEXT];
  char descriptors[MOST_DESCRIPTOR_TEXT];
  int status = last_command_exit_value;
  /* It may be in the place of standard output. */
  int fd = fcntl(file, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (fd < 0) _exit(1);
  close(file);
  list_descriptors(descriptors);
  int holds = holds_mount();
  size_t jobs_length = list_jobs(jobs);
  dup2(fd, STDOUT_FILENO);
  int null = open("/dev/null", O_RDWR);
  if (null != STDERR_FILENO) dup2(null, STDERR_FILENO);
  mode_t mask = umask(0);
  if (coproc_flush) coproc_flush();
  for_each(global_variables->table, write_variable);
  for_each(aliases, write_alias);
  for_each(shell_functions, write_function);
  if (&prog_completes) for_each(prog_completes, write_completion);
  const WORD_LIST *directories = get_directory_stack(0);
  write_pushed(directories ? directories->next : NULL);
  write_arguments();
  for_each(hashed_filenames, write_program);
  for (int i = 0; i < num_shell_builtins; i++) {
    if (!(shell_builtins[i].flags & BUILTIN_ENABLED)) write_text(DISABLED, 0, shell_builtins[i].name, "");
  }
  write_options();
  write_directory();
  write_traps();
  write_text(UMASK, mask, "", "");
  write_limits();
  if (&restricted && restricted) write_text(RESTRICTED, 0, "", "");
  if (jobs_length) write_item(JOBS, 0, "", jobs, jobs_length);
  if (*descriptors) write_text(DESCRIPTORS, 0, "", descriptors);
  write_text(STATUS, status, "", "");
  if (ferror(stdout)) _exit(1);
  write_text(LAST, holds, "", "");
  _exit(fflush(stdout) == 0 ? 0 : 1);
}

/* ---- Restoring ---- */

/* What is being restored. `variable` is the array that elements belong to. */
static struct {
  SHELL_VAR *variable;
  struct compspec *completion;
  WORD_LIST *arguments, **next_argument;
  BUCKET_CONTENTS *computed;
  const char *name; /* of the function whose definition is being parsed */
  int extended_patterns, aliases, posix_mode; /* before that */
} restoring;

static struct lost_items lost;

static void lose(const char *kind, const char *name, const char *reason) {
  const char *texts[] = {kind, name, reason};
  size_t length = strlen(kind) + strlen(name) + strlen(reason) + 3;
  lost.count++;
  if (lost.length + length > sizeof lost.text) return;
  for (int i = 0; i < 3; i++) {
    strcpy(lost.text + lost.length, texts[i]);
    lost.length += strlen(texts[i]) + 1;
  }
}

/* Empties the new shell, whose variables and functions came from its environment. Variables that bash computes wait in
 * a list until it is known whether they had been unset. */
static void forget_environment(void) {
  HASH_TABLE *table = global_variables->table;
  for (int i = 0; i < table->nbuckets; i++) {
    for (BUCKET_CONTENTS *one = table->bucket_array[i], *next; one; one = next) {
      next = one->next;
      SHELL_VAR *variable = one->data;
      if (variable->attributes & (att_readonly | att_nounset)) continue;
      BUCKET_CONTENTS *bucket = hash_remove(one->key, table, 0);
      if (is_computed(variable)) {
        bucket->next = restoring.computed;
        restoring.computed = bucket;
        continue;
      }
      char *name = bucket->key;
      dispose_variable(variable);
      xfree(bucket);
      apply_variable(name);
      xfree(name);
    }
  }
  for (int i = 0; i < shell_functions->nbuckets; i++) {
    while (shell_functions->bucket_array[i]) {
      char *name = copy_of(shell_functions->bucket_array[i]->key);
      unbind_func(name);
      xfree(name);
    }
  }
}

static void forget_computed(void) {
  while (restoring.computed) {
    BUCKET_CONTENTS *one = restoring.computed;
    restoring.computed = one->next;
    dispose_variable(one->data);
    xfree(one->key);
    xfree(one);
  }
}

static SHELL_VAR *computed_variable(const char *name) {
  for (BUCKET_CONTENTS **at = &restoring.computed; *at; at = &(*at)->next) {
    BUCKET_CONTENTS *one = *at;
    if (strcmp(one->key, name) != 0) continue;
    *at = one->next;
    SHELL_VAR *variable = one->data;
    hash_insert(one->key, global_variables->table, HASH_NOSRCH)->data = variable;
    xfree(one);
    return variable;
  }
  return global_variable(name);
}

/* A variable that exists already is one of bash's own that cannot be unset. */
static SHELL_VAR *new_variable(uint32_t number, char *name, char *value) {
  SHELL_VAR *variable = global_variable(name);
  if (variable) return variable;
  if (number & att_array) return make_new_array_variable(name);
  if (!(number & att_assoc)) return bind_variable(name, value, 0);
  /* The size of the table decides the order of the elements. */
  variable = make_new_assoc_variable(name);
  int buckets = atoi(value);
  if (buckets > 0 && (buckets & (buckets - 1)) == 0 && buckets <= MOST_BUCKETS) {
    hash_dispose((HASH_TABLE *)variable->value);
    variable->value = (char *)hash_create(buckets);
  }
  return variable;
}

/* Attributes follow the value, which they would change or evaluate. An array gets those that forbid or convert its
 * elements' values too: the elements are put in without bash's assignment. */
static void restore_variable(uint32_t number, char *name, char *value) {
  restoring.variable = NULL;
  SHELL_VAR *variable = number & COMPUTED ? computed_variable(name) : new_variable(number, name, value);
  if (!variable) return lose("variable", name, "bash refuses it");
  if (number & COMPUTED && number & HAS_VALUE) bind_variable(name, value, 0);
  int is_own = number & COMPUTED || (variable->attributes & (att_readonly | att_nounset));
  variable->attributes |= number & (is_own ? att_exported | att_readonly | att_trace : KEPT_ATTRIBUTES);
  if (!is_own && !(number & (HAS_VALUE | att_array | att_assoc))) {
    xfree(variable->value);
    variable->value = NULL;
  }
  if (!is_own && number & (att_array | att_assoc)) restoring.variable = variable;
  /* bash would cut the file that HISTFILE names. */
  if (!is_own && strcmp(name, "HISTFILESIZE") != 0) apply_variable(name);
}

static void restore_element(const char *key, char *value) {
  SHELL_VAR *variable = restoring.variable;
  if (!variable) return;
  if (variable->attributes & att_assoc) {
    assoc_insert((HASH_TABLE *)variable->value, copy_of(key), value);
  } else {
    array_insert((ARRAY *)variable->value, strtoimax(key, NULL, 10), value);
  }
}

/* The parser depends on these options. Functions were printed without aliases, and patterns like `!(x)` usually occur in
 * functions that were defined with `extglob`. */
static void begin_parsing(const char *name) {
  restoring.name = name;
  restoring.extended_patterns = extended_glob;
  restoring.aliases = expand_aliases;
  restoring.posix_mode = posixly_correct;
  expand_aliases = posixly_correct = 0;
}

static void end_parsing(void) {
  extended_glob = restoring.extended_patterns;
  expand_aliases = restoring.aliases;
  posixly_correct = restoring.posix_mode;
  restoring.name = NULL;
}

/* Reads a definition, and executes nothing. */
static COMMAND *parse(char *text, int extended_patterns) {
  extended_glob = extended_patterns;
  reset_parser();
  with_input_from_string(text, "-c");
  COMMAND *command = NULL;
  /* The first line may count as an empty one. */
  for (int failed = 0; !failed && !command && *bash_input.location.string;) {
    failed = read_command();
    command = failed ? NULL : global_command;
    global_command = NULL;
  }
  if (!command || command->type == cm_function_def) return command;
  dispose_command(command);
  return NULL;
}

/* bash prints some definitions in a form that it cannot read. */
static void restore_function(uint32_t number, const char *name, char *text) {
  begin_parsing(name);
  COMMAND *command = parse(text, 1);
  if (!command) command = parse(text, 0);
  end_parsing();
  if (!command) return lose("function", name, "bash cannot read the definition that it printed");
  SHELL_VAR *function = bind_function(name, command->value.Function_def->command);
  function->attributes |= number & (att_exported | att_readonly | att_trace);
  dispose_command(command);
  array_needs_making = 1;
}

static void restore_completion(const char *name, const void *value, uint32_t length) {
  struct compspec former;
  restoring.completion = NULL;
  if (!compspec_create || length != sizeof former) return lose("completion", name, "this bash has no completions");
  memcpy(&former, value, sizeof former);
  restoring.completion = compspec_create();
  restoring.completion->actions = former.actions;
  restoring.completion->options = former.options;
  progcomp_insert((char *)name, restoring.completion);
}

static void restore_pushed(char *directory) {
  static char option[] = "-n", end[] = "--";
  WORD_LIST *words = make_word_list(make_bare_word(directory), NULL);
  words = make_word_list(make_bare_word(option), make_word_list(make_bare_word(end), words));
  this_shell_builtin = pushd_builtin;
  if (pushd_builtin(words) != 0) lose("pushed directory", directory, "pushd refuses it");
  dispose_words(words);
}

static void restore_argument(const char *value) {
  if (!restoring.next_argument) {
    restoring.next_argument = &restoring.arguments;
    dollar_vars[0] = copy_of(value);
    return;
  }
  *restoring.next_argument = make_word_list(make_bare_word(value), NULL);
  restoring.next_argument = &(*restoring.next_argument)->next;
}

/* A removed directory is replaced by another one that does not exist: a command must not act in a third one. Where none
 * can be made, nothing can be changed in the shell's directory in /proc. */
static void enter_nowhere(void) {
  static const char *const parents[] = {"/tmp", "/var/tmp", "/dev/shm"};
  for (size_t i = 0; i < sizeof parents / sizeof *parents; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s/nacre-nowhere.XXXXXX", parents[i]);
    if (!mkdtemp(name)) continue;
    int entered = chdir(name) == 0;
    rmdir(name);
    if (entered) return;
  }
  if (chdir("/proc/self/fdinfo") < 0) lose("directory", "", "it does not exist, and the shell is in another one");
}

static void restore_directory_names(char *logical, char *physical) {
  if (*physical && chdir(logical) == 0) return set_working_directory(logical);
  if (*physical && chdir(physical) == 0) return set_working_directory(physical);
  if (*physical) lose("directory", physical, strerror(errno));
  enter_nowhere();
  set_working_directory(logical);
}

/* The option `history` would read the file that HISTFILE names. */
static void restore_option(char *name, int on) {
  int is_history = strcmp(name, "history") == 0 && on;
  SHELL_VAR *file = is_history ? replace_variable("HISTFILE", NULL, 0) : NULL;
  set_option(name, on);
  if (is_history) put_back_variable("HISTFILE", file);
}

static void restore_limit(uint32_t resource, const void *value, uint32_t length) {
  struct rlimit limit, own;
  if (length != sizeof limit || getrlimit(resource, &own) < 0) return;
  memcpy(&limit, value, sizeof limit);
  if (memcmp(&limit, &own, sizeof own) == 0 || setrlimit(resource, &limit) == 0) return;
  static const char *const names[RLIM_NLIMITS] = {
      [RLIMIT_CPU] = "cpu",         [RLIMIT_FSIZE] = "fsize",           [RLIMIT_DATA] = "data",
      [RLIMIT_STACK] = "stack",     [RLIMIT_CORE] = "core",             [RLIMIT_RSS] = "rss",
      [RLIMIT_NPROC] = "nproc",     [RLIMIT_NOFILE] = "nofile",         [RLIMIT_MEMLOCK] = "memlock",
      [RLIMIT_AS] = "as",           [RLIMIT_LOCKS] = "locks",           [RLIMIT_SIGPENDING] = "sigpending",
      [RLIMIT_MSGQUEUE] = "msgqueue", [RLIMIT_NICE] = "nice",           [RLIMIT_RTPRIO] = "rtprio",
      [RLIMIT_RTTIME] = "rttime"};
  lose("limit", names[resource] ? names[resource] : "", strerror(errno));
}

static void restore_item(const struct item *item, char *name, char *value) {
  switch (item->kind) {
    case VARIABLE:
      return restore_variable(item->number, name, value);
    case ELEMENT:
      return restore_element(name, value);
    case ALIAS:
      return add_alias(name, value);
    case FUNCTION:
      return restore_function(item->number, name, value);
    case COMPLETION:
      return restore_completion(name, value, item->value_length);
    case COMPLETION_TEXT:
      if (item->number < COMPSPEC_TEXTS && restoring.completion) {
        restoring.completion->texts[item->number] = copy_of(value);
      }
      return;
    case PUSHED:
      return restore_pushed(value);
    case ARGUMENT:
      return restore_argument(value);
    case PROGRAM:
      return phash_insert(name, value, item->number & HASH_CHKDOT, 0);
    case DISABLED: {
      struct builtin *builtin = builtin_address_internal(name, 1);
      if (builtin) builtin->flags &= ~BUILTIN_ENABLED;
      return;
    }
    case OPTION:
      return restore_option(name, item->number != 0);
    case SHOPT:
      return set_shopt(name, item->number != 0);
    case DIRECTORY:
      return restore_directory_names(name, value);
    case TRAP:
      if (item->number <= RETURN_TRAP) set_signal(item->number, value);
      return;
    case TRAP_IGNORED:
      if (item->number <= RETURN_TRAP) ignore_again(item->number);
      return;
    case UMASK:
      umask(item->number);
      return;
    case LIMIT:
      return restore_limit(item->number, value, item->value_length);
    case RESTRICTED:
      if (&restricted) restricted = 1;
  }
}

/* Stores the item at `*at` and moves on. Returns 0 if there is no whole item. */
static int next_item(char **at, const char *end, struct item *item, char **name, char **value) {
  struct item next;
  if ((size_t)(end - *at) < sizeof next) return 0;
  memcpy(&next, *at, sizeof next);
  uint64_t length = (uint64_t)next.name_length + next.value_length + 2;
  if (length > (size_t)(end - *at) - sizeof next) return 0;
  *item = next;
  *name = *at + sizeof *item;
  *value = *name + item->name_length + 1;
  *at = *value + item->value_length + 1;
  return !(*value)[-1] && !(*at)[-1];
}

const struct lost_items *restore_checkpoint(char *items, size_t length) {
  char *volatile at = items;
  startup_state = STARTED_WITH_TEXT;
  mark_base();
  /* The environment can set options, with SHELLOPTS. */
  exit_immediately_on_error = mark_modified_vars = 0;
  forget_environment();
  /* bash jumps here if it gives an item up. */
  if (sigsetjmp(top_level, 0) != 0) {
    lose(restoring.name ? "function" : "item", restoring.name ? restoring.name : "", "bash gives it up");
    if (restoring.name) end_parsing();
    unwind();
  }
  struct item item = {0, 0, 0, 0};
  char *name, *value, *next = at;
  while (item.kind != LAST && next_item(&next, items + length, &item, &name, &value)) {
    at = next;
    restore_item(&item, name, value);
  }
  if (item.kind != LAST) lose("state", "", "its list is incomplete");
  forget_computed();
  remember_args(restoring.arguments, 1);
  copy_traps();
  static char nothing[1];
  reset_parser();
  with_input_from_string(nothing, "-c");
  startup_state = 0;
  return &lost;
}
