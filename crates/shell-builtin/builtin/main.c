/*
 * The builtin `nacre CHANNEL OBJECT`: the main loop of a session's shell.
 *
 * It replaces bash's own loop and never returns, unless the running bash is unknown. It removes its traces: its name,
 * the text of `-c`, the descriptors.
 */
#include "builtin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

enum { REFUSED_STATUS = 126 };

static pid_t supervisor;

/* ---- Requests ---- */

static char *command_text(const struct message *message) {
  uint32_t length = message->request->text_length;
  char *text = memcpy(xmalloc((size_t)length + 1), message->payload, length);
  text[length] = '\0';
  return text;
}

/* Moves the streams to 0, 1 and 2 if they arrived elsewhere. */
static void place_streams(const struct message *message) {
  for (int i = 0; i < message->count && i <= STDERR_FILENO; i++) {
    if (message->descriptors[i] == i) continue;
    dup2(message->descriptors[i], i);
    close(message->descriptors[i]);
  }
}

/* Keeps a background process's channel of messages, which arrives behind the streams, above the numbers that scripts use.
 * Programs find it in a variable, whose value the host cannot know. */
static void keep_messages(const struct message *message) {
  enum { FIRST = 10 };
  if (message->count <= STDERR_FILENO + 1) return;
  int arrived = message->descriptors[STDERR_FILENO + 1];
  int kept = fcntl(arrived, F_DUPFD, FIRST);
  if (kept >= 0) close(arrived);
  char number[16];
  snprintf(number, sizeof number, "%d", kept >= 0 ? kept : arrived);
  bind_variable("NODE_CHANNEL_FD", number, 0);
}

static void refuse(uint64_t id, const struct refusal_report *refused) {
  struct reply reply = {
      .kind = REFUSED, .id = id, .pid = own_pid, .status = refused->error, .reason = refused->reason};
  close_streams();
  send_reply(&reply, refused->text);
  if (is_background) _exit(REFUSED_STATUS);
}

/* What the shell and the programs that it had waited for had used when the command began. */
static struct rusage used[2];

static void begin_usage(void) {
  getrusage(RUSAGE_SELF, &used[0]);
  getrusage(RUSAGE_CHILDREN, &used[1]);
}

static uint64_t microseconds(const struct rusage *usage) {
  return (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000 + usage->ru_utime.tv_usec +
         usage->ru_stime.tv_usec;
}

static void put_usage(struct reply *reply) {
  const struct rusage before[2] = {used[0], used[1]};
  begin_usage();
  for (int i = 0; i < 2; i++) {
    reply->cpu += microseconds(&used[i]) - microseconds(&before[i]);
    reply->read_blocks += used[i].ru_inblock - before[i].ru_inblock;
    reply->written_blocks += used[i].ru_oublock - before[i].ru_oublock;
  }
}

/* Sends a result. The directory that the host shows is the logical name, if it is valid. */
static void report(uint64_t id, const struct outcome *outcome) {
  struct reply reply = {.kind = DONE,
                        .id = id,
                        .pid = own_pid,
                        .flags = outcome->flags,
                        .status = last_command_exit_value,
                        .signal = outcome->signal,
                        .forks = fork_count};
  put_usage(&reply);
  const char *directory = the_current_working_directory;
  char *physical = NULL;
  if (!directory || *directory != '/' || strlen(directory) > LONGEST_REPLY) {
    physical = getcwd(NULL, 0);
    directory = physical && strlen(physical) <= LONGEST_REPLY ? physical : "";
  }
  send_reply(&reply, directory);
  free(physical);
}

/* A background process needs no channel from here on, and its descendants must not see it. */
static void announce(uint64_t id) {
  struct reply begun = {.kind = BEGUN, .id = id, .pid = own_pid};
  send_reply(&begun, "");
  if (!is_background) return;
  close_channel();
  rank_below_shell();
}

static void run(struct message *message) {
  const struct request request = *message->request;
  struct refusal_report refused = {REFUSED_CWD, 0, ""};
  give_up_standby_name();
  begin_usage();
  place_streams(message);
  command_id = request.id;
  if (message->is_cut) {
    struct refusal_report no_files = {REFUSED_STREAMS, EMFILE, ""};
    release_payload(message);
    refuse(request.id, &no_files);
    return;
  }
  if (is_cancelled(request.id)) {
    struct outcome never_begun = {EXITED | INTERRUPTED | STATE_KEPT, 0};
    release_payload(message);
    close_streams();
    report(request.id, &never_begun);
    return;
  }
  const int has_terminal = (request.flags & TERMINAL_STREAMS) != 0;
  if (has_terminal && !is_background && !take_terminal(&refused)) {
    release_payload(message);
    refuse(request.id, &refused);
    return;
  }
  begin_fork_count();
  if (!message->payload || !enter_scope(message, &refused)) {
    give_up_terminal();
    release_payload(message);
    refuse(request.id, &refused);
    return;
  }
  keep_messages(message);
  char *text = command_text(message);
  release_payload(message);
  if (has_terminal && is_background) become_terminal_process();
  name_terminal();
  if (request.flags & TYPED_END) await_typed_end();
  if (is_background || request.cwd_length || request.env_length || has_terminal) announce(request.id);
  struct outcome outcome = {0, 0};
  note_untouched(0);
  if (request.flags & KEEP_SCOPE) keep_scope();
  if (!(request.flags & KEEP_SCOPE) || *text) outcome = run_command(text, request.text_length, request.flags);
  if (is_background) {
    await_substitutions();
    _exit(last_command_exit_value);
  }
  xfree(text);
  give_up_terminal();
  leave_scope();
  close_streams();
  note_untouched(outcome.flags & STATE_KEPT);
  outcome.flags |= living_forks();
  report(request.id, &outcome);
}

/* As the first shell, which the supervisor makes so. The standby must not: it keeps the state. */
static void die_with_supervisor(void) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  /* It may have died before. */
  if (getppid() != supervisor) kill(own_pid, SIGKILL);
}

/* The id is `$?` of the command that the previous shell died in. */
static void promote(const struct request *request) {
  drop_pending_signals();
  become_shell();
  die_with_supervisor();
  last_command_exit_value = (int)request->id;
  struct reply promoted = {.kind = PROMOTED, .pid = own_pid};
  send_reply(&promoted, "");
}

/* The id is `$?` of the last command. */
static void restore(struct message *message) {
  if (!message->payload) {
    struct refusal_report no_files = {REFUSED_STREAMS, EMFILE, ""};
    refuse(message->request->id, &no_files);
    return;
  }
  struct reply restored = {.kind = RESTORED, .id = message->request->id, .pid = own_pid};
  open_null_streams();
  note_untouched(0);
  const struct lost_items *lost = restore_checkpoint(message->payload, message->request->text_length);
  fflush(stdout);
  fflush(stderr);
  close_streams();
  release_payload(message);
  last_command_exit_value = (int)message->request->id;
  restored.status = lost->count;
  send_reply_bytes(&restored, lost->text, lost->length);
}

static void close_descriptors(const struct message *message) {
  for (int i = 0; i < message->count; i++) close(message->descriptors[i]);
}

static void serve(struct message *message) {
  switch (message->request->kind) {
    case RUN:
      run(message);
      break;
    case FORK:
      fork_request(message);
      break;
    case PROMOTE:
      close_descriptors(message);
      promote(message->request);
      break;
    case RESTORE:
      close_descriptors(message);
      restore(message);
      break;
    case LISTENER:
      if (message->payload) remember_listener(message->payload, message->request->text_length);
      release_payload(message);
      close_descriptors(message);
      break;
    case REENTER:
      reenter_directory(message->count > 0 ? message->descriptors[0] : -1);
      close_descriptors(message);
      break;
    default: /* a newer host's: the reply it waits for never comes, and it sees the end of the channel */
      _exit(1);
  }
}

/* ---- The start ---- */

static void hide(BUILTIN_FUNCTION *own) {
  for (int i = 0; i < num_shell_builtins; i++) {
    if (shell_builtins[i].function != own) continue;
    num_shell_builtins--;
    memmove(&shell_builtins[i], &shell_builtins[i + 1], (num_shell_builtins - i + 1) * sizeof *shell_builtins);
    return;
  }
}

/* Leaves no trace of the startup on bash's stacks and in its variables. */
static void remove_traces(void) {
  clear_unwind_protect_list(0);
  unbind_variable("BASH_EXECUTION_STRING");
  command_execution_string = NULL;
  parse_and_execute_level = startup_state = last_command_exit_value = executing = 0;
  bind_variable("_", "bash", 0);
}

static void greet(void) {
  struct reply hello = {.kind = HELLO, .pid = own_pid};
  const char *version = get_string_value("BASH_VERSION");
  send_reply(&hello, version ? version : "");
}

static int nacre(WORD_LIST *words) {
  if (!words || !words->next || !layout_is_known(nacre)) return 1;
  own_pid = getpid();
  supervisor = getppid();
  note_rank();
  /* Otherwise a program of the same user could read the number of a command in this process's memory, copy its channel,
   * and report a result (ptrace(2), "Ptrace access mode checking"). Forks inherit this; programs do not. */
  prctl(PR_SET_DUMPABLE, 0);
  adopt_channel(atoi(words->word->word));
  close(atoi(words->next->word->word));
  hide(nacre);
  catch_exit();
  prepare_traps();
  count_forks();
  take_signals();
  remove_traces();
  fflush(stdout);
  fflush(stderr);
  close_streams();
  greet();
  for (;;) {
    struct message message;
    receive(&message);
    serve(&message);
  }
}

static char *const no_help[] = {NULL};

/* The symbol that `enable -f` looks for. */
__attribute__((visibility("default"))) struct builtin nacre_struct = {
    "nacre", nacre, BUILTIN_ENABLED, no_help, "nacre", NULL};
