/*
 * Evaluates a command in the shell itself, as `bash -c` would.
 *
 * Like bash's own loop over a script, it repeatedly reads one command from the text and executes it. bash's stacks
 * are empty when it starts, so DEBUG traps, `set -x`, `$_`, PIPESTATUS and FUNCNAME show nothing of the engine. As
 * with `bash -c`, an expansion error ends only the line, and an error in an arithmetic assignment the whole text.
 *
 * `startup_state` is that of `bash -c`: it decides when bash forgets or reports ended jobs. It also lets the last
 * command of the outermost evaluation replace the shell. Here that is the command's text, at OWN_LEVEL, which is not
 * marked for it. `eval`, `source` and traps are above that level.
 */
#include "builtin.h"

#include <stdio_ext.h>
#include <string.h>
#include <sys/ioctl.h>

int in_command;

/* The command being executed. It survives jumps. */
static COMMAND *current;

static void dispose_current(void) {
  if (current) dispose_command(current);
  current = NULL;
  forget_in_place();
}

static void check_interrupt(void) {
  if (interrupt_state) throw_to_top_level();
}

static void execute_current(void) {
  prove(current);
  executing = 1;
  execute_command(current);
  check_interrupt();
  dispose_current();
}

/* Under errexit, the parser would call exit() for a syntax error. It may also jump. */
static int suspended_errexit;

static void suspend_errexit(void) {
  suspended_errexit = exit_immediately_on_error;
  exit_immediately_on_error = 0;
}

static void resume_errexit(void) {
  if (suspended_errexit) exit_immediately_on_error = suspended_errexit;
  suspended_errexit = 0;
}

static int has_more(void) {
  return *bash_input.location.string || parser_expanding_alias();
}

/* Reads one command from the text and executes it. Returns 0 at a syntax error. */
static int step(void) {
  executing = 0;
  if (temporary_env) dispose_used_env_vars();
  /* The parser sets a status for some errors, and leaves it unchanged for others. */
  int former = last_command_exit_value;
  last_command_exit_value = 0;
  suspend_errexit();
  int failed = read_command() != 0;
  resume_errexit();
  if (failed) return 0;
  last_command_exit_value = former;
  current = global_command;
  global_command = NULL;
  if (!current) return 1;
  if (read_but_dont_execute) {
    dispose_current();
  } else {
    if (is_background && !has_more()) run_in_place(current);
    execute_current();
  }
  return 1;
}

/* bash's own status of a syntax error is 2, or 1 after an unterminated quote, and 257 in bash 5.0. */
static void note_syntax_error(void) {
  disprove();
  last_command_exit_value &= 255;
  if (last_command_exit_value == 0) last_command_exit_value = 2;
}


static void begin_level(void) {
  parse_and_execute_level = OWN_LEVEL;
  mark_bottom();
}

/* What to do after a jump to the top level. */
enum next { GO_ON, STOP, LEAVE };

static enum next after_jump(int code) {
  indirection_level = 1;
  resume_errexit();
  if (code != EXITPROG && code != EXITBLTIN) disprove();
  /* A builtin was interrupted before it wrote its text. Its redirections are undone, so the text would go elsewhere. */
  if (caught_signal) __fpurge(stdout);
  /* An interrupted `read` leaves the part of its file that bash has read ahead. The next `read` would begin with it. */
  zreset();
  if (code != DISCARD || caught_signal) {
    if (code == FORCE_EOF) last_command_exit_value = 127;
    return LEAVE;
  }
  enum next next = is_all_unwound() ? STOP : GO_ON;
  last_command_exit_value = 1;
  set_pipestatus_from_exit(1);
  dispose_current();
  unwind();
  begin_level();
  return next;
}

static enum end execute_text(void) {
  if (sigsetjmp(failed_exec, 0)) return EXEC_FAILED;
  do {
    int code = sigsetjmp(top_level, 0);
    if (code != NOT_JUMPED) {
      enum next next = after_jump(code);
      if (next == LEAVE) return LEFT;
      if (next == STOP) break;
      continue;
    }
    if (!has_more()) break;
    if (!step()) {
      note_syntax_error();
      break;
    }
  } while (!just_one_command);
  /* A signal that arrived at the very end still belongs to this command. */
  if (sigsetjmp(top_level, 0)) return LEFT;
  check_signals_and_traps();
  check_interrupt();
  return COMPLETE;
}

static enum end execute_words(const char *words, uint32_t length) {
  if (sigsetjmp(failed_exec, 0)) return EXEC_FAILED;
  int code = sigsetjmp(top_level, 0);
  if (code != NOT_JUMPED) return after_jump(code) == LEAVE ? LEFT : COMPLETE;
  current = make_bare_simple_command(1);
  SIMPLE_COM *simple = current->value.Simple;
  current->flags |= CMD_INHIBIT_EXPANSION | CMD_NO_FUNCTIONS;
  simple->flags |= CMD_INHIBIT_EXPANSION | CMD_NO_FUNCTIONS;
  current->line = simple->line = 1;
  WORD_LIST **last = &simple->words;
  for (const char *word = words; word < words + length; word += strlen(word) + 1) {
    *last = make_word_list(make_bare_word(word), NULL);
    last = &(*last)->next;
  }
  if (read_but_dont_execute || !simple->words) {
    dispose_current();
  } else {
    if (is_background) run_in_place(current);
    execute_current();
  }
  check_signals_and_traps();
  check_interrupt();
  return COMPLETE;
}

/* Messages about jobs that ended between commands belong to no command. */
static void discard_job_notices(void) {
  silence_notices();
  notify_and_cleanup(-1);
  restore_notices();
}

/* A closed pipe must not end the shell, since the command has ended. */
static void flush_output(void) {
  if (__fpending(stdout) > 0) {
    struct sigaction ignore = {.sa_handler = SIG_IGN}, own;
    sigaction(SIGPIPE, &ignore, &own);
    fflush(stdout);
    sigaction(SIGPIPE, &own, NULL);
  }
  clearerr(stdout);
  clearerr(stderr);
}

static void reset_bash(char *text) {
  caught_signal = 0;
  interrupt_state = 0;
  executing_builtin = line_number = EOF_Reached = 0;
  indirection_level = 1;
  mark_base();
  reset_parser();
  with_input_from_string(text, "-c");
}

struct outcome run_command(char *text, uint32_t length, uint32_t flags) {
  static char nothing[1];
  struct outcome outcome = {0, 0};
  startup_state = STARTED_WITH_TEXT;
  discard_job_notices();
  reset_bash(flags & ARGV ? nothing : text);
  prepare_ends();
  begin_proof(flags);
  begin_level();
  in_command = 1;
  interrupt_if_cancelled();
  enum end end = flags & ARGV ? execute_words(text, length) : execute_text();
  if (end == COMPLETE && is_background) end = LEFT;
  if (end != COMPLETE) outcome.flags = leave(end, !(flags & ENGINE));
  if (outcome.flags & (INTERRUPTED | SIGNALED)) repair_directory_names();
  restore_notices();
  dispose_current();
  forget_bottom();
  parse_and_execute_level = 0;
  outcome.signal = outcome.flags & SIGNALED ? caught_signal : 0;
  caught_signal = 0;
  executing = startup_state = just_one_command = read_but_dont_execute = 0;
  reset_parser();
  with_input_from_string(nothing, "-c");
  flush_output();
  in_command = 0;
  if (flags & ENGINE) last_command_exit_value = 0;
  if (state_is_kept(&outcome)) outcome.flags |= STATE_KEPT;
  return outcome;
}
