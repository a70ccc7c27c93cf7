/*
 * Drops bash's messages about killed jobs.
 *
 * bash writes them to `stderr`, like its other messages. Descriptor 2 stays open meanwhile, since running commands
 * write to it. With glibc, `stderr` is replaced by a stream that discards. musl declares it constant, so there the
 * messages collect in a buffer, which is emptied before anything is written.
 */
#include "builtin.h"

#if defined(__GLIBC__)

static FILE *own_stderr, *nowhere;

void prepare_notices(void) {
  static const cookie_io_functions_t discard;
  if (nowhere) return;
  own_stderr = stderr;
  nowhere = fopencookie(NULL, "w", discard);
}

void silence_notices(void) {
  if (nowhere) stderr = nowhere;
}

void restore_notices(void) {
  if (own_stderr) stderr = own_stderr;
}

#else

#include <stdio_ext.h>

/* Larger than bash's messages about the jobs of one command. Excess text is written. */
static char dropped[64 << 10];
static int is_silent;

void prepare_notices(void) {}

void silence_notices(void) {
  if (is_silent) return;
  is_silent = 1;
  setvbuf(stderr, dropped, _IOFBF, sizeof dropped);
}

void restore_notices(void) {
  if (!is_silent) return;
  is_silent = 0;
  __fpurge(stderr);
  setvbuf(stderr, NULL, _IONBF, 0);
}

#endif
