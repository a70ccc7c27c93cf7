/*
 * The name of a standby, which `ps`, `pkill` and the like show.
 *
 * `pkill bash` and `pkill -f norc` kill every shell, and the standby must survive what kills its shell. So it has a name of
 * its own in the kernel's two places: the name of the process, and the memory of its arguments, which /proc/PID/cmdline
 * shows. bash uses neither. A standby that becomes a process has bash's again, and one that becomes the shell has it from the
 * first command on: what a command sees of its shell never changes. Until then, what still kills by name does not meet it.
 *
 * The race: a command kills by name before a new standby has renamed itself. So the shell takes the name for the moment
 * of the fork, and the standby is born with it.
 */
#include "builtin.h"

#include <errno.h> /* program_invocation_name */
#include <string.h>
#include <sys/prctl.h>

enum {
  WORDS = 6, /* `ARGUMENTS` in src/lib.rs */
  LONGEST_NAME = 16,
  LONGEST_ARGUMENTS = 256
};

static int is_named;
static size_t length;
static char own_name[LONGEST_NAME], own_arguments[LONGEST_ARGUMENTS];

/* The words follow one another from the first on, as the kernel has put them. Returns their length, or 0. */
static size_t arguments_length(void) {
  const char *end = program_invocation_name;
  for (int i = 0; i < WORDS; i++) {
    if (i == WORDS - 3 && strcmp(end, "-c") != 0) return 0;
    end += strlen(end) + 1;
  }
  size_t all = end - program_invocation_name;
  return all >= sizeof STANDBY_NAME && all <= LONGEST_ARGUMENTS ? all : 0;
}

int take_standby_name(void) {
  if (is_named) return 0;
  is_named = 1;
  length = arguments_length();
  prctl(PR_GET_NAME, own_name);
  prctl(PR_SET_NAME, STANDBY_NAME);
  if (length == 0) return 1;
  memcpy(own_arguments, program_invocation_name, length);
  memset(program_invocation_name, 0, length);
  memcpy(program_invocation_name, STANDBY_NAME, sizeof STANDBY_NAME);
  return 1;
}

void give_up_standby_name(void) {
  if (!is_named) return;
  is_named = 0;
  prctl(PR_SET_NAME, own_name);
  memcpy(program_invocation_name, own_arguments, length);
}
