/* Shared declarations of the builtin. Each file implements one mechanism and explains it at its top. */
#ifndef NACRE_BUILTIN_H
#define NACRE_BUILTIN_H

#include "bash.h"
#include "protocol.h"

#include <string.h>

/* In bash's own memory, which bash may free. NULL stays NULL. */
static inline char *copy_of(const char *text) {
  return text ? strcpy(xmalloc(strlen(text) + 1), text) : NULL;
}

/* ---- layout.c ---- */

/* Returns 1 if the running bash is known and its structures match `bash.h`. */
int layout_is_known(BUILTIN_FUNCTION *own);

/* Returns 1 for bash 5.0, whose `exit` jumps with a different code. */
int is_bash_5_0(void);

int is_before_bash_5_2(void);

/* Returns the number of elements of an indexed array variable, or 0. */
int array_length(const char *name);

/* ---- process.c ---- */

/* The process that owns the channel. Its forks have other pids until they become shells of their own. */
extern pid_t own_pid;
extern int is_background;
extern int is_standby;

/* Forks that this process has made for the command. */
extern unsigned fork_count;

void count_forks(void);

/* To be called before a command. */
void begin_fork_count(void);

/* Returns what is left of the command's forks, as flags for its reply. */
uint32_t living_forks(void);

/* Makes the calling fork a separate shell: `$$`, PPID, no jobs. */
void become_shell(void);

/* ---- rank.c ---- */

/* To be called while the shell is dumpable. */
void note_rank(void);

/* To be called in a fork without a channel. */
void rank_below_shell(void);

/* ---- channel.c ---- */

struct message {
  struct request *request;
  char *payload; /* NULL when its file is missing */
  int descriptors[MOST_DESCRIPTORS];
  int count;
  int is_cut; /* the limit of descriptors kept some from arriving */
};

extern int channel;

/* The id of the last received command. */
extern uint64_t command_id;

void adopt_channel(int fd);
/* Whether nothing since the last look can have changed the channel's descriptor or the limits of this process: only
 * builtins do, and a command that is proven to keep the state ran none of those. Neither is looked at then. */
void note_untouched(int untouched);
void close_channel(void);
void remember_listener(const char *name, size_t length);
void send_reply(struct reply *reply, const char *text);
void send_reply_bytes(struct reply *reply, const char *text, size_t length);

/* Waits for the next request, with descriptors 0 to 2 closed. */
void receive(struct message *message);
void release_payload(struct message *message);

/* Whether a trap has run between commands since the last call. */
int take_idle_trap(void);

/* ---- descriptors.c ---- */

/* Moves a descriptor above the numbers that scripts use. */
int move_high(int fd);
void close_streams(void);
void open_null_streams(void);

/* ---- signals.c ---- */

enum { INTERRUPT = 33 };

/* The signal that ended the running command, or 0. */
extern volatile sig_atomic_t caught_signal;

int is_cancelled(uint64_t command);
void interrupt_if_cancelled(void);
void take_signals(void);

/* Drops signals that arrived while no command could handle them. */
void drop_pending_signals(void);

/* Blocks all signals, including the interrupt. Returns the former mask. */
uint64_t block_all_signals(void);
void restore_signal_mask(uint64_t former);
void release_signals(void);

/* ---- notices.c ---- */

/* Drops bash's messages about jobs that the engine killed, or that end between commands. */
void prepare_notices(void);
void silence_notices(void);
void restore_notices(void);

/* ---- run.c ---- */

/* The outcome of a command, for its reply. */
struct outcome {
  uint32_t flags;
  int signal;
};

extern int in_command;

/* The evaluation depth of a command's text: that of `bash -c`. `eval` and `source` add to it. */
enum { OWN_LEVEL = 1 };

struct outcome run_command(char *text, uint32_t length, uint32_t flags);

/* ---- in_place.c ---- */

/* Lets the last simple command of this one replace the shell. */
void run_in_place(COMMAND *command);

/* Makes it run as a child if a trap is set. */
void keep_shell_for_traps(void);
void forget_in_place(void);

/* ---- ends.c ---- */

enum end { COMPLETE, LEFT, EXEC_FAILED };

/* Target of the jump out of exit() when `exec` fails. */
extern sigjmp_buf failed_exec;

void prepare_ends(void);
void catch_exit(void);

/* Finishes a command that ended the shell: runs the EXIT trap, then unwinds. Returns the flags for the reply. */
uint32_t leave(enum end end, int with_trap);

/* ---- traps.c ---- */

void prepare_traps(void);

/* Saves the traps, whose texts a failing `exec` frees. */
void copy_traps(void);
void restore_traps_after_exec(void);
void ignore_again(int trap);

/* ---- unwind.c ---- */

/* Records the state that a command is to be unwound to. */
void mark_base(void);

/* Puts a mark at the bottom of bash's list, which shows whether bash itself ran the whole list before a jump. */
void mark_bottom(void);
void forget_bottom(void);
int is_all_unwound(void);

/* Returns bash to the state at the command's start. Returns 1 if bash had dropped frames without unwinding them. */
int unwind(void);

/* ---- scope.c ---- */

struct refusal_report {
  enum refusal reason;
  int error;
  const char *text;
};

/* Applies a command's directory, environment and limits. If refused, returns 0 and changes nothing. */
int enter_scope(const struct message *message, struct refusal_report *refused);
void leave_scope(void);
void keep_scope(void);
int scope_keeps_state(void);

/* ---- terminal.c ---- */

/* For a background process: its streams are its controlling terminal from now on. */
void become_terminal_process(void);

/* A background process whose streams are its terminal. */
extern int leads_terminal;

/* At the end of such a process: waits until its process substitutions have printed. With the leader of the session, everything
 * in the foreground of its terminal gets SIGHUP. */
void await_substitutions(void);

/* Makes standard input the controlling terminal of the shell, for one command. If refused, returns 0 and changes nothing. */
int take_terminal(struct refusal_report *refused);

/* Waits until standard input has what was typed. The kernel hands it over later, and in the mode that is set by then. */
void await_typed_end(void);

/* Sets TERM for the command, unless the session has a useful one. */
void name_terminal(void);

/* Has no effect without a terminal. */
void give_up_terminal(void);

/* In a fork: closes the shell's descriptor. */
void forget_terminal(void);

/* ---- directory.c ---- */

/* Returns 1 if the name is one of the current directory. */
int leads_here(const char *name);

void repair_directory_names(void);

/* Changes directory like `cd`, but without its variables. Returns 0 with errno. */
int change_directory(const char *path);

/* Saves the directory and bash's name for it, to return there whatever happens to the name. Returns 0 with errno. */
int save_directory(void);
void restore_directory(void);
void forget_directory(void);

/* Returns 1 if the kernel's name of the directory leads back to it, which `reenter_directory` needs. */
int can_reenter_directory(void);

/* Notes the directory, sends a byte, and waits for the end of the socket. If the directory's mount has been detached
 * meanwhile, enters the directory of the same name. */
void reenter_directory(int socket);

/* ---- variable.c ---- */

/* Finds the variable itself: a nameref is not followed. */
SHELL_VAR *global_variable(const char *name);

/* Updates what bash derives from some variables: IFS, PATH, LC_ALL, TZ, POSIXLY_CORRECT and others. */
void apply_variable(const char *name);

/* Replaces a variable by an exported string, or removes it if the value is NULL. Returns the former variable. */
SHELL_VAR *replace_variable(const char *name, const char *value, int exported);
void put_back_variable(const char *name, SHELL_VAR *former);

/* ---- options.c ---- */

int shopt_is_on(const char *name);
void set_option(char *name, int on);
void set_shopt(char *name, int on);

/* Returns 1 if bash changes options when it is set. */
int changes_options(const char *name);

/* To be called before such a variable of a command is set, and when all are set. */
void save_options(void);
void note_changed_options(void);
void restore_options(void (*put_variables_back)(void));
void forget_options(void);

/* ---- state_kept.c ---- */

void begin_proof(uint32_t flags);
void prove(const COMMAND *command);
void disprove(void);
int state_is_kept(const struct outcome *outcome);

/* ---- name.c ---- */

/* Returns whether the process did not have it. */
int take_standby_name(void);

/* Has no effect if the process does not have that name. */
void give_up_standby_name(void);

/* ---- burial.c ---- */

/* To be called in a standby, with the descriptor of its control group or -1. */
void note_group(int fd);

/* To be called in a standby when its channel has ended. */
void bury_session(void);

/* ---- fork.c, warm.c, checkpoint.c ---- */

void fork_request(struct message *message);
void warm_pages(void);
void write_checkpoint(int fd) __attribute__((noreturn));

/* Items that could not be restored, each as kind, name and reason with a NUL after each. The text may lack some. */
struct lost_items {
  int count;
  size_t length;
  char text[LONGEST_REPLY];
};

/* Restores what `write_checkpoint` has written, in a new shell. */
const struct lost_items *restore_checkpoint(char *items, size_t length);

#endif
