/*
 * What bash offers to a builtin that it loads: the part of it that the loop uses, written down here so that bash's own
 * headers are not needed to build. It was tried with bash 5.1, 5.2 and 5.3, and only these are asked to load it. One that
 * does not export one of these names refuses the object when it is loaded.
 */
#ifndef NACRE_BASH_H
#define NACRE_BASH_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

/* command.h */
typedef struct word_desc {
  char *word;
  int flags;
} WORD_DESC;

typedef struct word_list {
  struct word_list *next;
  WORD_DESC *word;
} WORD_LIST;

/* builtins.h */
enum { BUILTIN_ENABLED = 1 };

struct builtin {
  char *name;
  int (*function)(WORD_LIST *);
  int flags;
  char *const *long_doc;
  const char *short_doc;
  char *handle;
};

extern struct builtin *shell_builtins;
extern int num_shell_builtins;
int (*find_shell_builtin(const char *name))(WORD_LIST *); /* NULL when it is disabled */

/* shell.h, flags.h, variables.h */
extern int last_command_exit_value;
extern int read_but_dont_execute; /* set -n */
extern int indirection_level;     /* how many `+` a line of a trace begins with */
char *which_set_flags(void);      /* `$-`, to be freed */
int number_of_args(void);         /* `$#` */
char *get_string_value(const char *name);
void *find_function(const char *name);
void *bind_variable(const char *name, char *value, int flags);
void *save_pipestatus_array(void);
void restore_pipestatus_array(void *saved); /* which it frees */

/* trap.h: a text, or a value that no text has as its address for "default" and "ignored". */
extern char *trap_list[];
enum { EXIT_TRAP = 0, DEBUG_TRAP = NSIG, ERROR_TRAP, RETURN_TRAP };

/* common.h: `eval`, which frees the text. */
enum { SEVAL_NOHIST = 0x004 };
int evalstring(char *text, const char *from, int flags);

/* unwind_prot.h: what is to be done when a frame is left, also by a jump. */
void begin_unwind_frame(char *tag);
void add_unwind_protect(void (*cleanup)(char *), char *argument);
void run_unwind_frame(char *tag);

/* sig.h, jobs.h, error.h, externs.h, xmalloc.h */
void check_signals_and_traps(void);
void reap_dead_jobs(void);
void file_error(const char *path); /* says what errno is about */
ssize_t zread(int fd, char *into, size_t size); /* goes on after a signal, whose trap it runs */
char *sh_single_quote(const char *text); /* to be freed */
void *xmalloc(size_t size);
void xfree(void *block); /* or NULL */

#endif
