/*
 * The messages between the host and a shell, over a SOCK_SEQPACKET socket. `crates/protocol/src/shell` has the same
 * definitions in Rust. Numbers are in native byte order.
 */
#ifndef NACRE_PROTOCOL_H
#define NACRE_PROTOCOL_H

#include <stdint.h>

/* The name of a standby, in 15 characters at most. */
#define STANDBY_NAME "nacre-standby"

enum request_kind { RUN = 1, FORK = 2, PROMOTE = 3, LISTENER = 4, RESTORE = 5, REENTER = 6 };

enum request_flag {
  PAYLOAD_IN_FILE = 1 << 0, /* the payload is in a file, the last descriptor */
  ARGV = 1 << 1,            /* the text is words, each ended by NUL: a program or a builtin, nothing expanded */
  ENGINE = 1 << 2,          /* the engine's own text: no EXIT trap runs, and `$?` is 0 afterwards */
  TERMINAL_STREAMS = 1 << 4,/* the streams are a terminal, which becomes the controlling one */
  KEEP_SCOPE = 1 << 5,      /* directory and variables stay; without a text nothing runs */
  TYPED_END = 1 << 6,       /* with TERMINAL_STREAMS: the end of an empty input has been typed */
  STANDBY = 1 << 8,
  BACKGROUND = 2 << 8,
  TERMINAL = 4 << 8,        /* with BACKGROUND: a session of its own */
  CHECKPOINT = 8 << 8,      /* write the state to the last descriptor */
  NO_WARM = 16 << 8,
  GROUP = 32 << 8           /* the second descriptor is the cgroup for the child */
};

static const uint64_t UNLIMITED = UINT64_MAX; /* leave a limit as it is */

struct request {
  uint32_t kind;
  uint32_t flags;
  uint64_t id;
  uint32_t text_length, cwd_length, env_length, reserved; /* the parts of the payload, in order */
  uint64_t open_files;
  uint64_t processes;
  uint64_t fork_key; /* FORK: what a filter of system calls wants to see before a child may be born in a cgroup */
  uint64_t reserved_after;
  char payload[];
};

enum reply_kind { HELLO = 1, DONE = 2, REFUSED = 3, FORKED = 4, BEGUN = 5, PROMOTED = 6, ENDING = 7, RESTORED = 8 };

enum done_flag {
  EXITED = 1,           /* the command ended the shell: `exit`, errexit, a failed `exec`, a terminating signal */
  SIGNALED = 2,         /* a terminating signal did */
  INTERRUPTED = 4,      /* the engine's interrupt did */
  FRAMES_DISCARDED = 8, /* bash dropped functions without unwinding them */
  STATE_KEPT = 16,      /* nothing changed but `$?`, `$_`, PIPESTATUS and the hash table of programs */
  ONLY_JOBS = 32,       /* every fork was for a job (`&`), and they all live */
  SUBSTITUTED = 64      /* a process substitution of the shell lives */
};

enum forked_flag { PLACED = 1 }; /* the child was born in the cgroup */

enum refusal { REFUSED_CWD = 1, REFUSED_READ_ONLY = 2, REFUSED_LIMIT = 3, REFUSED_STREAMS = 4, REFUSED_TERMINAL = 5 };

struct reply {
  uint32_t kind;
  uint32_t flags;
  uint64_t id;
  int32_t status;
  int32_t signal;
  uint32_t forks;
  uint32_t pid;
  uint32_t reason;
  uint32_t text_length;
  uint64_t cpu;                  /* DONE: processor time of the command, in microseconds */
  uint32_t read_blocks, written_blocks; /* DONE: of disks, 512 bytes each */
  char text[];
};

_Static_assert(sizeof(struct request) == 64, "the header of a request");
_Static_assert(sizeof(struct reply) == 56, "the header of a reply");

enum {
  LONGEST_PAYLOAD = 64 * 1024, /* in a message; a longer one is in a file */
  LONGEST_REPLY = 16 * 1024,   /* its text */
  MOST_DESCRIPTORS = 8         /* in a message */
};

#endif
