/*
 * The channel to the host: one SOCK_SEQPACKET socket for each bash process.
 *
 * A shell waits for a request with descriptors 0 to 2 closed. The kernel gives passed descriptors the lowest free
 * numbers, so a command's streams arrive as 0, 1 and 2. That needs no dup2() and no saved copies, and works under
 * `ulimit -n 5`.
 *
 * A script may close the socket or replace it by another file. So the inode is compared before each use, and a lost
 * channel is reopened at the host's listener. Its address is kept only in memory.
 */
#include "builtin.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

enum { CHANNEL_LOST = 120 };

int channel = -1;
uint64_t command_id;
static ino_t channel_inode;
static struct sockaddr_un listener = {.sun_family = AF_UNIX};
static socklen_t listener_length;

static int is_untouched, idle_trap_ran;

/* A command has set a limit that is too low for the streams of the next one. */
static int limit_is_low;

void note_untouched(int untouched) {
  is_untouched = untouched && !limit_is_low;
}

static union {
  struct request request;
  char bytes[sizeof(struct request) + LONGEST_PAYLOAD + 1];
} incoming;

void adopt_channel(int fd) {
  struct stat status;
  channel = move_high(fd);
  channel_inode = fstat(channel, &status) == 0 ? status.st_ino : 0;
}

static int channel_is_ours(void) {
  struct stat status;
  return channel >= 0 && fstat(channel, &status) == 0 && S_ISSOCK(status.st_mode) && status.st_ino == channel_inode;
}

void close_channel(void) {
  if (channel_is_ours()) close(channel);
  channel = -1;
}

void remember_listener(const char *name, size_t length) {
  if (length >= sizeof listener.sun_path) return;
  memcpy(listener.sun_path + 1, name, length);
  listener_length = offsetof(struct sockaddr_un, sun_path) + 1 + length;
}

static int write_reply(struct reply *reply, const char *text) {
  struct iovec parts[2] = {{reply, sizeof *reply}, {(void *)text, reply->text_length}};
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
  ssize_t sent;
  do sent = sendmsg(channel, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent >= 0;
}

/* The host recognizes the shell by its credentials and its HELLO. */
static void reconnect(void) {
  int fd = listener_length ? socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0) : -1;
  if (fd < 0 || connect(fd, (struct sockaddr *)&listener, listener_length) < 0) _exit(CHANNEL_LOST);
  adopt_channel(fd);
  struct reply hello = {.kind = HELLO, .pid = own_pid};
  if (!write_reply(&hello, "")) _exit(CHANNEL_LOST);
}

void send_reply(struct reply *reply, const char *text) {
  send_reply_bytes(reply, text, strlen(text));
}

void send_reply_bytes(struct reply *reply, const char *text, size_t length) {
  reply->text_length = length;
  if (!is_untouched && !channel_is_ours()) reconnect();
  if (write_reply(reply, text)) return;
  if (errno == EPIPE || errno == ECONNRESET) _exit(CHANNEL_LOST);
  reconnect();
  if (!write_reply(reply, text)) _exit(CHANNEL_LOST);
}

/* The host has died, or has replaced this standby. A supervisor that a command has stopped is resumed, so that it can notice a
 * death too. */
static void end_of_channel(void) {
  if (is_standby) bury_session();
  else if (!is_background) kill(getppid(), SIGCONT);
  _exit(0);
}

/* Whether a trap is to run between commands. One for SIGCHLD runs in the next command, which can print. */
static int has_idle_trap(void) {
  int first = first_pending_trap();
  return first >= 0 && first != SIGCHLD;
}

int take_idle_trap(void) {
  int ran = idle_trap_ran;
  idle_trap_ran = 0;
  return ran;
}

/* Handles a signal between commands: the user's traps run, without streams. Nothing else can be interrupted. */
static void serve_signals(void) {
  if (is_standby) {
    drop_pending_signals();
    return;
  }
  interrupt_state = 0;
  caught_signal = 0;
  restore_notices();
  if (!has_idle_trap()) return;
  is_untouched = 0;
  trapped_signal_received = 0;
  give_up_standby_name();
  idle_trap_ran = 1;
  open_null_streams();
  mark_base();
  if (sigsetjmp(top_level, 0) == 0) {
    run_pending_traps();
  } else {
    unwind();
  }
  fflush(stdout);
  close_streams();
}

/* The streams of a command, and its text if that is in a file. */
enum { LEAST_FILES = 5 };

/* Raises a limit of descriptors that a command has set, as long as the streams of the next one arrive. Returns whether it
 * was raised; `own` is then the command's. A limit that another process sets is noticed by a message that arrives cut. */
static int make_room(struct rlimit *own) {
  if (is_untouched) return 0;
  limit_is_low = getrlimit(RLIMIT_NOFILE, own) == 0 && own->rlim_cur < LEAST_FILES;
  if (!limit_is_low) return 0;
  struct rlimit enough = {LEAST_FILES, own->rlim_max < LEAST_FILES ? LEAST_FILES : own->rlim_max};
  return setrlimit(RLIMIT_NOFILE, &enough) == 0;
}

/* Waits for a request, or a signal: returns 0 and EINTR then.
 *
 * A process that is killed in recvmsg() still takes a request that arrives before it gets a processor, and the request is
 * lost. In ppoll() it leaves the request to the next shell. With traps, signals are blocked until it waits: otherwise the trap
 * of one that arrived just before would not run until the next request. */
static int wait_for_request(void) {
  struct pollfd wanted = {.fd = channel, .events = POLLIN};
  if (any_signals_trapped() < 0) return ppoll(&wanted, 1, NULL, NULL) > 0 || errno != EINTR;
  uint64_t signals = block_all_signals();
  int is_late = !is_standby && trapped_signal_received && has_idle_trap();
  int has_signal = is_late || (syscall(SYS_ppoll, &wanted, 1, NULL, &signals, sizeof signals) < 0 && errno == EINTR);
  restore_signal_mask(signals);
  if (has_signal) errno = EINTR;
  return !has_signal;
}

static ssize_t receive_once(struct message *message) {
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof message->descriptors)];
  } control;
  struct iovec part = {incoming.bytes, sizeof incoming.bytes - 1};
  struct msghdr header = {
      .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  message->count = 0;
  struct rlimit own;
  int is_raised = make_room(&own);
  ssize_t length = wait_for_request() ? recvmsg(channel, &header, 0) : -1;
  if (is_raised) setrlimit(RLIMIT_NOFILE, &own);
  message->is_cut = length >= 0 && header.msg_flags & MSG_CTRUNC;
  if (message->is_cut) is_untouched = 0;
  if (length < 0) return length;
  for (struct cmsghdr *one = CMSG_FIRSTHDR(&header); one; one = CMSG_NXTHDR(&header, one)) {
    if (one->cmsg_level != SOL_SOCKET || one->cmsg_type != SCM_RIGHTS) continue;
    message->count = (one->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(message->descriptors, CMSG_DATA(one), message->count * sizeof(int));
  }
  return length;
}

static size_t payload_length(const struct request *request) {
  return (size_t)request->text_length + request->cwd_length + request->env_length;
}

static char *map_payload(struct message *message) {
  size_t length = payload_length(message->request);
  if (message->count == 0) return NULL;
  int fd = message->descriptors[--message->count];
  struct stat status;
  void *payload = MAP_FAILED;
  if (fstat(fd, &status) == 0 && (size_t)status.st_size >= length && length > 0) {
    payload = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  }
  close(fd);
  return payload == MAP_FAILED ? NULL : payload;
}

void release_payload(struct message *message) {
  if (message->payload && message->request->flags & PAYLOAD_IN_FILE) {
    munmap(message->payload, payload_length(message->request));
  }
  message->payload = NULL;
}

/* Does not check the channel first: it can only be lost if traps have run since its last use, which an error then
 * shows. */
void receive(struct message *message) {
  for (;;) {
    ssize_t length = receive_once(message);
    if (length == 0 || (length < 0 && errno == ECONNRESET)) end_of_channel();
    if (length < 0) {
      if (errno == EINTR) serve_signals();
      if (!channel_is_ours()) reconnect();
      continue;
    }
    if ((size_t)length < sizeof(struct request)) continue;
    message->request = &incoming.request;
    if (incoming.request.flags & PAYLOAD_IN_FILE) {
      message->payload = map_payload(message);
    } else {
      if (payload_length(&incoming.request) > length - sizeof(struct request)) continue;
      message->payload = incoming.request.payload;
    }
    return;
  }
}
