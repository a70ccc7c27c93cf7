/*
 * The loop of a session's shell as a builtin: report, wait for a token, run the command's text; for ever.
 *
 * It does what the loop of text in crates/core/src/driver/script/text.rs does, over the same channels, in a third of
 * the system calls: a redirection by bash takes five, here it takes two. It needs no loop in the shell's text around the
 * user's commands and no `eval`, so that `break`, `$_`, PIPESTATUS and the depth of a trace are what they are in a plain
 * bash.
 *
 *   nacre_loop CONTROL TOKEN COMMAND INPUT OUTPUT ERROR EXIT_TRAP REPORT
 *
 * The first six are paths, opened at the moment of use. EXIT_TRAP is the engine's own trap, as it is set. REPORT is the
 * text that makes a report, used when there is more to tell than usual. A token is a line of at most one character: an
 * empty one lets a command of the user's run, any other a text of the engine's own, which leaves `$?`, PIPESTATUS and
 * `$_` as they were. It returns only when it can not go on, and the loop of text after it then has its turn. That is a
 * success, of which neither errexit nor an ERR trap takes notice.
 */
#include "bash.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INPUT, OUTPUT, ERROR };

/* Where the shell's own output waits while a command has its place: out of the way of numbers that scripts use, and of
   those that bash takes for `<(...)` and coprocesses, from 63 down. */
enum { ASIDE = 50, ASIDE_WHEN_FEW = 10 };

static const char *control, *token, *command, *streams[3], *exit_trap, *report_text;

/* What `trap -p EXIT` prints as long as the trap is the engine's. */
static char usual_traps[1024];

/* By number, while a command runs; -1 when there was no room. */
static int aside[3];

static char *copy_of(const char *text) {
  size_t size = strlen(text) + 1;
  return memcpy(xmalloc(size), text, size);
}

/* Opens a path as a certain descriptor. The number has just become free and those below it are in use, so the kernel
   chooses it: this works even when no other is left. A FIFO makes this wait for its other end; a signal may end that. */
static int open_as(int fd, const char *path, int flags) {
  close(fd);
  for (;;) {
    int opened = open(path, flags, 0666);
    if (opened == fd) return 1;
    if (opened >= 0) {
      int moved = dup2(opened, fd);
      close(opened);
      return moved == fd;
    }
    if (errno != EINTR) return 0;
    check_signals_and_traps();
  }
}

/* ---- streams ---- */

/* Output that could not be put aside, or that a command has closed together with numbers it did not open, is lost: it is
   the shell's own, of which nobody hears but when something goes wrong. */
static void take_streams_back(char *unused) {
  (void)unused;
  for (int fd = OUTPUT; fd <= ERROR; fd++) {
    if (aside[fd] < 0 || dup2(aside[fd], fd) < 0) open_as(fd, "/dev/null", O_WRONLY);
    if (aside[fd] >= 0) close(aside[fd]);
  }
}

/* Gives the command its streams. Input is not put aside: between commands it is whatever the loop reads. */
static int give_streams(void) {
  for (int fd = OUTPUT; fd <= ERROR; fd++) {
    aside[fd] = fcntl(fd, F_DUPFD_CLOEXEC, ASIDE);
    if (aside[fd] < 0) aside[fd] = fcntl(fd, F_DUPFD_CLOEXEC, ASIDE_WHEN_FEW);
  }
  for (int fd = INPUT; fd <= ERROR; fd++) {
    int flags = fd == INPUT ? O_RDONLY : O_WRONLY | O_CREAT | O_TRUNC;
    if (open_as(fd, streams[fd], flags)) continue;
    int reason = errno;
    take_streams_back(NULL);
    errno = reason;
    file_error(streams[fd]);
    return 0;
  }
  return 1;
}

/* ---- report ---- */

static int is_ours(const char *trap) {
  return (uintptr_t)trap > 4096 && strcmp(trap, exit_trap) == 0;
}

static int traps_are_usual(void) {
  return is_ours(trap_list[EXIT_TRAP]) && !trap_list[DEBUG_TRAP] && !trap_list[ERROR_TRAP] && !trap_list[RETURN_TRAP];
}

/* The usual report, or 0 when it does not fit: it is written in one piece, and so arrives in one. */
static size_t usual_report(char *into, size_t size) {
  char *flags = which_set_flags();
  const char *directory = get_string_value("PWD");
  int length = snprintf(into, size, "\1L%c%d%c%s%c%d%c%s%c%s%c\2\n", 0, last_command_exit_value, 0, flags, 0,
                        number_of_args(), 0, directory ? directory : "", 0, usual_traps, 0);
  xfree(flags);
  return length > 0 && (size_t)length < size ? (size_t)length : 0;
}

/* Evaluates a text of the engine's own. */
static void aside_from_the_user(char *text) {
  int status = last_command_exit_value;
  void *pipes = save_pipestatus_array();
  const char *argument = get_string_value("_");
  char *kept = argument ? copy_of(argument) : NULL;
  evalstring(text, "eval", SEVAL_NOHIST);
  if (kept) bind_variable("_", kept, 0);
  xfree(kept);
  restore_pipestatus_array(pipes);
  last_command_exit_value = status;
}

/* Under `set -n` nothing would run any more, and a loop of text would not report: neither does this one. The host finds
   out and goes back to the state before. */
static void report(void) {
  if (read_but_dont_execute) return;
  char text[4096];
  size_t length = traps_are_usual() ? usual_report(text, sizeof text) : 0;
  if (length == 0) {
    aside_from_the_user(copy_of(report_text));
    return;
  }
  if (!open_as(INPUT, control, O_WRONLY)) return;
  while (write(INPUT, text, length) < 0 && errno == EINTR) check_signals_and_traps();
}

/* ---- command ---- */

/* The whole file without the line ends at its end, as `$(<file)` gives it. NULL with errno when it can not be read. */
static char *command_text(void) {
  char small[4096];
  if (!open_as(INPUT, command, O_RDONLY)) return NULL;
  ssize_t length = read(INPUT, small, sizeof small);
  if (length < 0) return NULL;
  char *text;
  if (length < (ssize_t)sizeof small) {
    text = memcpy(xmalloc(length + 1), small, length);
  } else {
    struct stat file;
    if (fstat(INPUT, &file) < 0) return NULL;
    text = xmalloc(file.st_size + 1);
    length = 0;
    for (ssize_t more; (more = pread(INPUT, text + length, file.st_size - length, length)) > 0;) length += more;
  }
  while (length > 0 && text[length - 1] == '\n') length--;
  text[length] = '\0';
  return text;
}

/* Runs it; a jump out of it (`exit`) leaves the frame and so takes the streams back. The trap of a signal that arrived
   with its last instruction still prints into its output. */
static void run(char *text, int is_users) {
  static char frame[] = "nacre_loop";
  begin_unwind_frame(frame);
  add_unwind_protect(take_streams_back, NULL);
  int level = indirection_level--;
  if (is_users) {
    last_command_exit_value = evalstring(text, "eval", SEVAL_NOHIST);
  } else {
    aside_from_the_user(text);
  }
  check_signals_and_traps();
  indirection_level = level;
  run_unwind_frame(frame);
}

/* ---- the builtin ---- */

/* Takes the name out of bash's table: nobody is to find it or to call it again. */
static void hide(int (*function)(WORD_LIST *)) {
  for (int i = 0; i < num_shell_builtins; i++) {
    if (shell_builtins[i].function != function) continue;
    num_shell_builtins--;
    memmove(&shell_builtins[i], &shell_builtins[i + 1], (num_shell_builtins - i + 1) * sizeof *shell_builtins);
    return;
  }
}

static int take_arguments(WORD_LIST *words) {
  const char **places[] = {&control,         &token,          &command,   &streams[INPUT],
                           &streams[OUTPUT], &streams[ERROR], &exit_trap, &report_text};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++, words = words->next) {
    if (!words) return 0;
    *places[i] = copy_of(words->word->word);
  }
  char *quoted = sh_single_quote(exit_trap);
  int length = snprintf(usual_traps, sizeof usual_traps, "trap -- %s EXIT\n", quoted);
  xfree(quoted);
  return length > 0 && (size_t)length < sizeof usual_traps;
}

/* Whether the engine's texts find what the loop of text needs. When the user has taken it away they can save no state
   either, and the loop of text is the one that gives that away: its report is lost, and the command is undone. */
static int has_means(void) {
  static const char *const needed[] = {"builtin", "eval", "printf", "read", "trap"};
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
    if (!find_shell_builtin(needed[i])) return 0;
  }
  return !find_function("builtin");
}

static int nacre_loop(WORD_LIST *words) {
  if (!take_arguments(words)) return 0;
  hide(nacre_loop);
  while (has_means()) {
    reap_dead_jobs();
    char line[2];
    report();
    if (!open_as(INPUT, token, O_RDONLY)) return 0;
    check_signals_and_traps();
    /* The host writes a token in one piece and sends no other before it has been taken. */
    if (zread(INPUT, line, sizeof line) < 1) return 0;
    char *text = command_text();
    if (!text) file_error(command);
    if (text && give_streams()) {
      run(text, line[0] == '\n');
      continue;
    }
    xfree(text);
    last_command_exit_value = 1;
  }
  return 0;
}

static char *const no_help[] = {NULL};

/* The name that `enable -f` looks for. */
__attribute__((visibility("default"))) struct builtin nacre_loop_struct = {
    "nacre_loop", nacre_loop, BUILTIN_ENABLED, no_help, "nacre_loop", NULL};
