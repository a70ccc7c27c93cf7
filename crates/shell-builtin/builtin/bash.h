/*
 * The symbols and structures of bash that this builtin uses, declared here so that bash's own headers are not needed.
 * They are valid for bash 5.0 to 5.3. `layout.c` compares them with the running bash before anything relies on them.
 * Symbols that some of these versions lack are weak. If any other symbol is missing, the dynamic linker refuses the
 * object as a whole.
 */
#ifndef NACRE_BASH_H
#define NACRE_BASH_H

#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#define WEAK __attribute__((weak))

/* ---- Words and the parse tree ---- */

enum { W_HASDOLLAR = 1, W_QUOTED = 2, W_ASSIGNMENT = 4 };

typedef struct word_desc {
  char *word;
  int flags;
} WORD_DESC;

typedef struct word_list {
  struct word_list *next;
  WORD_DESC *word;
} WORD_LIST;

typedef union {
  int dest;
  WORD_DESC *filename;
} REDIRECTEE;

enum r_instruction {
  r_output_direction,
  r_input_direction,
  r_inputa_direction,
  r_appending_to,
  r_reading_until,
  r_reading_string,
  r_duplicating_input,
  r_duplicating_output,
  r_deblank_reading_until,
  r_close_this,
  r_err_and_out,
  r_input_output,
  r_output_force,
  r_duplicating_input_word,
  r_duplicating_output_word,
  r_move_input,
  r_move_output,
  r_move_input_word,
  r_move_output_word,
  r_append_err_and_out
};

enum { REDIR_VARASSIGN = 1 }; /* {name}>file */

typedef struct redirect {
  struct redirect *next;
  REDIRECTEE redirector;
  int rflags;
  int flags;
  enum r_instruction instruction;
  REDIRECTEE redirectee;
  char *here_doc_eof;
} REDIRECT;

enum command_type {
  cm_for,
  cm_case,
  cm_while,
  cm_if,
  cm_simple,
  cm_select,
  cm_connection,
  cm_function_def,
  cm_until,
  cm_group,
  cm_arith,
  cm_cond,
  cm_arith_for,
  cm_subshell,
  cm_coproc
};

enum {
  CMD_WANT_SUBSHELL = 0x01,
  CMD_FORCE_SUBSHELL = 0x02,
  CMD_INVERT_RETURN = 0x04,
  CMD_IGNORE_RETURN = 0x08,
  CMD_NO_FUNCTIONS = 0x10,
  CMD_INHIBIT_EXPANSION = 0x20,
  CMD_NO_FORK = 0x40,
  CMD_TIME_PIPELINE = 0x80,
  CMD_TIME_POSIX = 0x100
};

typedef struct command {
  enum command_type type;
  int flags;
  int line;
  REDIRECT *redirects;
  union {
    struct connection *Connection;
    struct simple_com *Simple;
    struct subshell_com *Subshell;
    struct function_def *Function_def;
  } value;
} COMMAND;

typedef struct connection {
  int ignore;
  COMMAND *first;
  COMMAND *second;
  int connector; /* a character, or AND_AND or OR_OR */
} CONNECTION;

typedef struct simple_com {
  int flags;
  int line;
  WORD_LIST *words;
  REDIRECT *redirects;
} SIMPLE_COM;

typedef struct function_def {
  int flags;
  int line;
  WORD_DESC *name;
  COMMAND *command;
  char *source_file;
} FUNCTION_DEF;

enum { FUNC_MULTILINE = 1 };

WORD_DESC *make_bare_word(const char *text);
WORD_LIST *make_word_list(WORD_DESC *word, WORD_LIST *next);
COMMAND *make_bare_simple_command(int line); /* without the argument before 5.3 */
void dispose_command(COMMAND *command);
void dispose_words(WORD_LIST *words);

/* ---- Variables ---- */

typedef struct bucket_contents {
  struct bucket_contents *next;
  char *key;
  void *data;
  unsigned int khash;
  int times_found;
} BUCKET_CONTENTS;

typedef struct hash_table {
  BUCKET_CONTENTS **bucket_array;
  int nbuckets;
  int nentries;
} HASH_TABLE;

typedef struct var_context {
  char *name;
  int scope;
  int flags;
  struct var_context *up;
  struct var_context *down;
  HASH_TABLE *table;
} VAR_CONTEXT;

enum {
  att_exported = 0x1,
  att_readonly = 0x2,
  att_array = 0x4,
  att_integer = 0x10,
  att_assoc = 0x40,
  att_trace = 0x80,
  att_uppercase = 0x100,
  att_lowercase = 0x200,
  att_capcase = 0x400,
  att_nameref = 0x800,
  att_invisible = 0x1000, /* declared, without a value */
  att_nounset = 0x2000    /* cannot be unset */
};

typedef struct variable {
  char *name;
  char *value;
  char *exportstr;
  struct variable *(*dynamic_value)(struct variable *);
  struct variable *(*assign_func)(struct variable *, char *, intmax_t, char *);
  int attributes;
  int context;
} SHELL_VAR;

typedef struct array ARRAY;
typedef struct array_element ARRAY_ELEMENT;

extern VAR_CONTEXT *global_variables, *shell_variables;
extern HASH_TABLE *shell_functions;
extern HASH_TABLE *temporary_env;
extern HASH_TABLE *hashed_filenames; /* what `hash` lists; NULL while empty */
extern int variable_context;         /* depth of functions */
extern int array_needs_making;       /* the exported environment is out of date */

SHELL_VAR *find_variable(const char *name);
SHELL_VAR *find_function(const char *name);
SHELL_VAR *bind_variable(const char *name, char *value, int flags);
char *get_string_value(const char *name);
int unbind_variable(const char *name);
void dispose_variable(SHELL_VAR *variable);
void dispose_var_context(VAR_CONTEXT *context);
void dispose_used_env_vars(void);
void stupidly_hack_special_variables(char *name); /* what bash does after an assignment to a variable like IFS */
void sv_ifs(char *name);
ARRAY_ELEMENT *array_shift(ARRAY *array, int count, int flags);
void array_dispose_element(ARRAY_ELEMENT *element);
int array_insert(ARRAY *array, intmax_t index, char *value);       /* a copy of the value */
int assoc_insert(HASH_TABLE *table, char *key, char *value);       /* keeps the key, a copy of the value */
WORD_LIST *array_keys_to_word_list(ARRAY *array), *array_to_word_list(ARRAY *array);
SHELL_VAR *make_new_array_variable(char *name), *make_new_assoc_variable(char *name);
SHELL_VAR *bind_function(const char *name, COMMAND *body); /* a copy of the body */
int unbind_func(const char *name);
char *named_function_string(char *name, COMMAND *body, int flags); /* the same buffer each time */

enum { HASH_NOSRCH = 1 }; /* the key is known to be new */

BUCKET_CONTENTS *hash_search(const char *key, HASH_TABLE *table, int flags);
BUCKET_CONTENTS *hash_insert(char *key, HASH_TABLE *table, int flags); /* keeps the key */
BUCKET_CONTENTS *hash_remove(const char *key, HASH_TABLE *table, int flags);
HASH_TABLE *hash_create(int buckets); /* a power of 2 */
void hash_flush(HASH_TABLE *table, void (*dispose)(void *));
void hash_dispose(HASH_TABLE *table);

struct path_data {
  char *path;
  int flags;
};

enum { HASH_CHKDOT = 2 };

void phash_flush(void);
void phash_insert(char *name, char *path, int check_dot, int times_found);

struct alias {
  char *name;
  char *value;
  char flags;
};

extern HASH_TABLE *aliases;
void add_alias(char *name, char *value);

enum { COMPSPEC_TEXTS = 8 };

struct compspec {
  int refcount;
  unsigned long actions, options;
  char *texts[COMPSPEC_TEXTS];
};

/* A bash may have been built without programmable completion. */
WEAK extern HASH_TABLE *prog_completes;
WEAK struct compspec *compspec_create(void);
WEAK int progcomp_insert(char *name, struct compspec *completion);

/* ---- Builtins ---- */

enum { BUILTIN_ENABLED = 1 };

typedef int BUILTIN_FUNCTION(WORD_LIST *);

struct builtin {
  char *name;
  BUILTIN_FUNCTION *function;
  int flags;
  char *const *long_doc;
  const char *short_doc;
  char *handle;
};

extern struct builtin *shell_builtins;
extern int num_shell_builtins;
extern BUILTIN_FUNCTION *this_shell_builtin;
struct builtin *builtin_address_internal(const char *name, int disabled_too);
BUILTIN_FUNCTION exec_builtin, exit_builtin, pushd_builtin, shopt_builtin, trap_builtin;
int get_exitstat(WORD_LIST *words);
int number_of_args(void);
WORD_LIST *list_rest_of_args(void);        /* a copy */
void remember_args(WORD_LIST *arguments, int all); /* a copy; `all`: also $1 to $9 */
WORD_LIST *get_directory_stack(int flags); /* a copy */
extern char *dollar_vars[];

/* ---- Reading and executing ---- */

enum { NOT_JUMPED, FORCE_EOF, DISCARD, EXITPROG, ERREXIT, SIGEXIT, EXITBLTIN };
enum { ST_STRING = 3 };
enum { STARTED_WITH_TEXT = 2 }; /* startup_state of `bash -c` */

typedef struct {
  int type;
  char *name;
  union {
    FILE *file;
    char *string;
    int fd;
  } location;
  void *getter, *ungetter;
} BASH_INPUT;

extern BASH_INPUT bash_input;
extern sigjmp_buf top_level;
extern COMMAND *global_command;
extern int EOF_Reached, executing, executing_builtin, evalnest, sourcelevel, funcnest, running_trap;
extern int parse_and_execute_level, indirection_level, line_number, startup_state, subshell_environment;
extern int last_command_exit_value;
extern SHELL_VAR *this_shell_function;
extern WORD_LIST *subst_assign_varlist;
extern char *command_execution_string;
extern const char *const dist_version;
extern const int patch_level;

int read_command(void);
int execute_command(COMMAND *command);
int parser_expanding_alias(void);
void with_input_from_string(char *text, const char *name);
void reset_parser(void);
void top_level_cleanup(void);
void clear_unwind_protect_list(int free_elements);
void begin_unwind_frame(char *tag);
void add_unwind_protect(void (*cleanup)(void *), void *argument);
void jump_to_top_level(int code) __attribute__((noreturn));
void pop_dollar_vars(void);
void set_pipestatus_from_exit(int status);

/* ---- Options ---- */

extern int read_but_dont_execute;       /* set -n */
extern int exit_immediately_on_error; /* set -e */
extern int just_one_command;            /* set -t */
extern int mark_modified_vars;          /* set -a */
extern int echo_command_at_execute;     /* set -x */
extern int job_control;                 /* set -m */
extern int place_keywords_in_env;       /* set -k */
extern int lastpipe_opt;                /* shopt -s lastpipe */
extern int posixly_correct, no_symbolic_links;
extern int extended_glob;  /* shopt -s extglob */
extern int expand_aliases; /* shopt -s expand_aliases */
WEAK extern int restricted; /* set -r */
char **get_minus_o_opts(void), **get_shopt_options(void); /* the names */
int minus_o_option_value(char *name);
int set_minus_o_option(int sign, char *name); /* '-': on, '+': off */
void set_shellopts(void); /* assigns SHELLOPTS */
int shopt_setopt(char *name, int on);
int set_job_control(int on);

/* ---- Signals and traps ---- */

enum { EXIT_TRAP = 0, DEBUG_TRAP = NSIG, ERROR_TRAP, RETURN_TRAP };

extern volatile sig_atomic_t interrupt_state, terminating_signal;
extern volatile int wait_signal_received;
extern int wait_intr_flag; /* `wait` is to return when a signal arrives */
extern char *trap_list[];
extern int trap_saved_exit_value; /* $? when the EXIT trap began */

int signal_is_trapped(int signal);
int signal_is_ignored(int signal);
int any_signals_trapped(void); /* the first of them, or -1 */
int first_pending_trap(void);  /* or -1 */
extern int trapped_signal_received; /* the last since the traps ran, or 0 */
int run_exit_trap(void);
int run_pending_traps(void);
void run_trap_cleanup(int signal);
void check_signals_and_traps(void);
void throw_to_top_level(void);
void zreset(void); /* forgets what `read` and `mapfile` have read ahead */
void set_signal(int signal, char *text); /* keeps a copy */
void ignore_signal(int signal);
void set_original_signal(int signal, void (*handler)(int));
void initialize_signals(int again);
void initialize_terminating_signals(void);
void reset_terminating_signals(void);
void restore_original_signals(void);
WEAK void clear_pending_traps(void); /* since 5.1 */
WEAK void restore_sigmask(void);     /* since 5.1 */

/* ---- Jobs and processes ---- */

extern pid_t dollar_dollar_pid, shell_pgrp, original_pgrp, terminal_pgrp;

extern volatile pid_t last_asynchronous_pid; /* `$!`: of `&`, a coprocess or a process substitution */
int get_job_by_pid(pid_t pid, int block, void *process); /* -1 without a job; without the last argument in 5.0 */
void notify_and_cleanup(int job); /* -1: all; without the argument before 5.3 */
void unfreeze_jobs_list(void);
void list_running_jobs(int format); /* 0: as the builtin `jobs` */
void list_stopped_jobs(int format);
void cleanup_the_pipeline(void);
void stop_making_children(void);
void without_job_control(void);
void clear_fifo_list(void);
void set_ppid(void);
WEAK void seedrand(void); /* since 5.1 */
WEAK void coproc_flush(void); /* forgets the coprocess, with its variables */

/* ---- Paths and memory ---- */

enum { PATH_CHECKDOTDOT = 1, PATH_CHECKEXISTS = 2 };

extern char *the_current_working_directory;
void set_working_directory(char *path);
char *get_working_directory(char *caller);
char *make_absolute(const char *path, const char *directory);
char *sh_canonpath(char *path, int flags);
void *xmalloc(size_t size);
void xfree(void *block); /* or NULL */

#endif
