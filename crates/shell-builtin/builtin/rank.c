/*
 * When memory runs out, the kernel ends what the shell has started before the shell (crates/containment/src/oom.rs).
 *
 * A fork of the shell takes the highest rank; programs and further forks inherit it. It does not if a command has
 * changed the shell's own value: then it inherits that, as in any bash.
 *
 * Only root may open the file of a process that is not dumpable (prctl(2)). For others the fork is dumpable for that one
 * call. It has closed the channel, so a program that traced it from then on could report nothing to the host.
 */
#include "builtin.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#define RANK "/proc/self/oom_score_adj"
#define HIGHEST "1000"

static char shell_rank[8];
static ssize_t shell_rank_length;

void note_rank(void) {
  int file = open(RANK, O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  shell_rank_length = read(file, shell_rank, sizeof shell_rank);
  close(file);
}

void rank_below_shell(void) {
  static int is_ranked;
  if (is_ranked || shell_rank_length <= 0) return;
  is_ranked = 1;
  int file = open(RANK, O_RDWR | O_CLOEXEC);
  if (file < 0 && errno == EACCES) {
    prctl(PR_SET_DUMPABLE, 1);
    file = open(RANK, O_RDWR | O_CLOEXEC);
    prctl(PR_SET_DUMPABLE, 0);
  }
  /* Where this is refused, the process keeps the rank of the shell. */
  if (file < 0) return;
  char rank[sizeof shell_rank];
  if (read(file, rank, sizeof rank) == shell_rank_length && memcmp(rank, shell_rank, shell_rank_length) == 0) {
    (void)!write(file, HIGHEST, strlen(HIGHEST));
  }
  close(file);
}
