/*
 * Makes signals that would end an ordinary shell end only the command.
 *
 * The handler is installed as the original action of these signals, so a user's trap replaces it and `trap - TERM`
 * restores it. It sets what bash itself sets at SIGINT: bash then leaves the command at the next safe point.
 *
 * The engine's interrupt is signal 33. glibc hides it from bash, so that `trap '' {1..64}` cannot block it. It
 * carries the number of its command. A late interrupt never hits the next command, and an early interrupt keeps its
 * command from starting.
 */
#include "builtin.h"

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

volatile sig_atomic_t caught_signal;

static const int ending[] = {SIGTERM, SIGHUP, SIGINT, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGXCPU};

/* These kill the shell, and a standby replaces it. */
static const int fatal[] = {SIGILL, SIGTRAP, SIGABRT, SIGFPE, SIGBUS, SIGSEGV, SIGSYS, SIGPIPE, SIGXFSZ};

enum { ENDING_SIGNALS = sizeof ending / sizeof *ending, FATAL_SIGNALS = sizeof fatal / sizeof *fatal };

/* ---- System calls without glibc, which leaves out the interrupt ---- */

struct kernel_action {
  void (*handler)(int, siginfo_t *, void *);
  unsigned long flags;
  void (*restorer)(void);
  uint64_t mask;
};

#if defined(__x86_64__)
__asm__(".text\n.globl nacre_restorer\n.hidden nacre_restorer\nnacre_restorer: mov $15,%eax\nsyscall\n");
extern void nacre_restorer(void);
#define RESTORER_FLAG 0x04000000
#define RESTORER nacre_restorer
#else
#define RESTORER_FLAG 0
#define RESTORER NULL
#endif

static void set_raw_action(int signal, void (*handler)(int, siginfo_t *, void *)) {
  struct kernel_action action = {handler, RESTORER_FLAG | (handler ? SA_SIGINFO : 0), RESTORER, 0};
  syscall(SYS_rt_sigaction, signal, &action, NULL, sizeof action.mask);
}

static uint64_t change_raw_mask(int how, uint64_t mask) {
  uint64_t former = 0;
  syscall(SYS_rt_sigprocmask, how, &mask, &former, sizeof mask);
  return former;
}

uint64_t block_all_signals(void) {
  return change_raw_mask(SIG_BLOCK, ~(uint64_t)0);
}

void restore_signal_mask(uint64_t former) {
  change_raw_mask(SIG_SETMASK, former);
}

/* ---- The handler ---- */

static void die_of(int number) {
  set_raw_action(number, NULL);
  kill(getpid(), number);
  change_raw_mask(SIG_UNBLOCK, (uint64_t)1 << (number - 1));
}

static void on_signal(int number) {
  /* A fork that has not reset its handlers yet, or a background process after `trap - TERM`. */
  if (getpid() != own_pid || is_background) {
    die_of(number);
    return;
  }
  caught_signal = number;
  interrupt_state = 1;
  if (wait_intr_flag) wait_signal_received = number;
}

static volatile uint64_t cancelled_command;

static void interrupt_command(void) {
  silence_notices();
  caught_signal = INTERRUPT;
  interrupt_state = 1;
  if (wait_intr_flag) wait_signal_received = INTERRUPT;
}

/* Without a number, the signal comes from another tool, and interrupts whatever is running. */
static void on_interrupt(int number, siginfo_t *info, void *unused) {
  (void)unused;
  if (getpid() != own_pid || is_background) {
    die_of(number);
    return;
  }
  uint64_t command = info->si_code == SI_QUEUE ? (uintptr_t)info->si_value.sival_ptr : 0;
  if (in_command && (command == 0 || command == command_id)) {
    interrupt_command();
  } else if (command != 0) {
    cancelled_command = command;
  }
}

int is_cancelled(uint64_t command) {
  return command != 0 && cancelled_command == command;
}

/* After the command has started: an interrupt may have arrived just before. */
void interrupt_if_cancelled(void) {
  if (is_cancelled(command_id)) interrupt_command();
}

void take_signals(void) {
  prepare_notices();
  for (int i = 0; i < ENDING_SIGNALS; i++) {
    if (!signal_is_trapped(ending[i])) set_original_signal(ending[i], on_signal);
  }
  /* Done here, so that an EXIT trap does not do it later, and subshells undo it. */
  initialize_terminating_signals();
  struct sigaction own = {.sa_handler = on_signal}, deadly = {.sa_handler = SIG_DFL};
  for (int i = 0; i < ENDING_SIGNALS; i++) {
    if (!signal_is_trapped(ending[i])) sigaction(ending[i], &own, NULL);
  }
  for (int i = 0; i < FATAL_SIGNALS; i++) {
    if (!signal_is_trapped(fatal[i])) sigaction(fatal[i], &deadly, NULL);
  }
  set_raw_action(INTERRUPT, on_interrupt);
}

void drop_pending_signals(void) {
  interrupt_state = 0;
  caught_signal = 0;
  restore_notices();
  if (clear_pending_traps) clear_pending_traps();
}

/* For a background process: restores bash's own handling, and resets the user's traps as in a subshell. */
void release_signals(void) {
  reset_terminating_signals();
  restore_original_signals();
  for (int i = 0; i < ENDING_SIGNALS; i++) {
    struct sigaction now;
    if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler == on_signal) signal(ending[i], SIG_DFL);
  }
  set_raw_action(INTERRUPT, NULL);
  drop_pending_signals();
}
