/* Tries to be another program: `attack WAY CLIENT TARGET [PID FD]`. Prints STOLEN where a way in is open, and otherwise asks for
 * /stolen itself, which must be refused. */
#define _GNU_SOURCE
#include "tunnel.h"
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

static const char *client, *target;
static int victim, victim_fd;

static void open_door(const char *way) {
  printf("STOLEN by %s\n", way);
  fflush(stdout);
}

/* The request of this process, whatever it looks like by now. */
static void steal(int port) {
  int fd = tunnel(port, target);
  if (fd >= 0) request(fd, "/stolen");
}

static int copy_to(const char *from, int to) {
  int in = open(from, O_RDONLY);
  char buffer[65536];
  ssize_t got;
  while ((got = read(in, buffer, sizeof buffer)) > 0)
    if (write(to, buffer, (size_t)got) != got) return -1;
  close(in);
  return got < 0 ? -1 : 0;
}

static void traceme(void) {
  pid_t child = fork();
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, 0, 0) == 0) open_door("ptrace of a child");
    execl(client, client, "3128", target, "/", NULL);
    _exit(1);
  }
  int status;
  waitpid(child, &status, 0);
}

static void attach(void) {
  if (ptrace(PTRACE_SEIZE, victim, 0, 0) == 0) open_door("PTRACE_SEIZE");
  if (ptrace(PTRACE_ATTACH, victim, 0, 0) == 0) open_door("PTRACE_ATTACH");
}

/* The bytes of the program's own code, as it is mapped. */
static unsigned long code_of(int pid) {
  char path[64], line[512];
  unsigned long start = 0;
  snprintf(path, sizeof path, "/proc/%d/maps", pid);
  FILE *maps = fopen(path, "r");
  while (maps && fgets(line, sizeof line, maps))
    if (strstr(line, "r-xp")) {
      start = strtoul(line, NULL, 16);
      break;
    }
  if (maps) fclose(maps);
  return start;
}

static void memory_file(void) {
  char path[64];
  const char *forms[] = {"/proc/%d/mem", "/proc/%d/task/%d/mem", "/proc/self/../%d/mem"};
  for (int form = 0; form < 3; form++)
    for (int flags = 0; flags < 2; flags++) {
      snprintf(path, sizeof path, forms[form], victim, victim);
      int fd = open(path, (flags ? O_RDWR : O_WRONLY) | O_CLOEXEC);
      if (fd < 0) continue;
      char byte = 0x90;
      if (pwrite(fd, &byte, 1, (off_t)code_of(victim)) == 1) open_door(path);
      close(fd);
    }
}

static void own_memory_file_of_a_child(void) {
  /* Opened before the child executes the program: the descriptor is of the old memory. */
  int pipes[2];
  if (pipe(pipes)) return;
  pid_t child = fork();
  if (child == 0) {
    char byte;
    if (read(pipes[0], &byte, 1) < 0) _exit(1);
    execl(client, client, "3128", target, "/", NULL);
    _exit(1);
  }
  victim = child;
  memory_file();
  if (write(pipes[1], "x", 1) != 1) return;
  waitpid(child, NULL, 0);
}

static void vm_writev(void) {
  char byte = 0x90;
  struct iovec own = {&byte, 1}, its = {(void *)code_of(victim), 1};
  if (syscall(SYS_process_vm_writev, victim, &own, 1, &its, 1, 0) == 1) open_door("process_vm_writev");
  if (syscall(SYS_process_vm_readv, victim, &own, 1, &its, 1, 0) == 1) open_door("process_vm_readv");
}

static void getfd(void) {
  int pidfd = (int)syscall(SYS_pidfd_open, victim, 0);
  int fd = (int)syscall(438 /* pidfd_getfd */, pidfd, victim_fd, 0);
  if (fd >= 0) request(fd, "/stolen");
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", victim, victim_fd);
  fd = open(path, O_RDWR);
  if (fd >= 0) open_door("the descriptor in /proc");
}

static void exe_file(void) {
  int fd = open(client, O_RDONLY);
  /* Nothing of the old file may be mapped, so this fails for most programs anyway. */
  if (prctl(PR_SET_MM, PR_SET_MM_EXE_FILE, fd, 0, 0) == 0) open_door("PR_SET_MM_EXE_FILE");
  unsigned size = 0;
  if (prctl(PR_SET_MM, PR_SET_MM_MAP_SIZE, &size, 0, 0) == 0) open_door("PR_SET_MM_MAP");
  steal(3128);
}

static void memfd_program(void) {
  int fd = memfd_create("client", 0);
  if (copy_to("/proc/self/exe", fd)) return;
  char *words[] = {(char *)client, "plain", (char *)client, (char *)target, NULL};
  if (fork() == 0) {
    fexecve(fd, words, environ);
    _exit(1);
  }
  wait(NULL);
}

static void memfd_copy(void) {
  int fd = memfd_create("client", 0);
  if (copy_to(client, fd)) return;
  char *words[] = {(char *)client, "3128", (char *)target, "/stolen", NULL};
  if (fork() == 0) {
    fexecve(fd, words, environ);
    _exit(1);
  }
  wait(NULL);
}

static void memfd_library(const char *library) {
  int fd = memfd_create("lib", 0);
  if (copy_to(library, fd)) return;
  char value[64];
  snprintf(value, sizeof value, "/proc/self/fd/%d", fd);
  if (fork() == 0) {
    setenv("LD_PRELOAD", value, 1);
    execl(client, client, "3128", target, "/", NULL);
    _exit(1);
  }
  wait(NULL);
}

static volatile int is_over;

static void *connects(void *_) {
  (void)_;
  while (!is_over) {
    int fd = tunnel(3128, target);
    if (fd >= 0) request(fd, "/stolen");
    if (fd >= 0) close(fd);
  }
  return NULL;
}

/* Threads connect while another one executes the program. */
static void exec_race(void) {
  for (int turn = 0; turn < 150; turn++) {
    if (fork() == 0) {
      pthread_t threads[3];
      for (int at = 0; at < 3; at++) pthread_create(&threads[at], NULL, connects, NULL);
      usleep((useconds_t)(turn * 37 % 4000));
      int null = open("/dev/null", O_WRONLY);
      dup2(null, 1);
      execl(client, client, "3128", target, "/", NULL);
      _exit(1);
    }
    wait(NULL);
  }
}

static int on_shared_memory(void *socket) {
  int fd = *(int *)socket;
  for (int turn = 0; turn < 100000 && !is_over; turn++)
    if (send(fd, "GET /stolen HTTP/1.1\r\n\r\n", 24, MSG_NOSIGNAL | MSG_DONTWAIT) > 0) break;
  return 0;
}

/* A parent that shares memory and descriptors while its child executes the program. */
static void shared_exec(void) {
  static char stack[1 << 16];
  for (int turn = 0; turn < 50; turn++) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    is_over = 0;
    pid_t other = clone(on_shared_memory, stack + sizeof stack, CLONE_VM | CLONE_FILES | SIGCHLD, &fd);
    struct sockaddr_in address = loopback(3128);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && ask(fd, target) >= 0) request(fd, "/stolen");
    is_over = 1;
    if (vfork() == 0) {
      execl(client, client, "3128", target, "/", NULL);
      _exit(1);
    }
    wait(NULL);
    waitpid(other, NULL, 0);
    close(fd);
  }
}

/* The ports of the proxy that are for the program alone, by each address and way. */
static void ports(void) {
  for (int port = 3129; port < 3133; port++) {
    steal(port);
    struct sockaddr_in address = loopback(port);
    const char *names[] = {"127.0.0.1", "127.0.0.9", "0.0.0.0", "198.18.0.0"};
    for (int at = 0; at < 4; at++) {
      inet_pton(AF_INET, names[at], &address.sin_addr);
      int fd = socket(AF_INET, SOCK_STREAM, 0);
      if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && ask(fd, target) >= 0) request(fd, "/stolen");
      close(fd);
      /* Without connect(2). */
      fd = socket(AF_INET, SOCK_STREAM, 0);
      if (sendto(fd, "", 0, MSG_FASTOPEN, (struct sockaddr *)&address, sizeof address) >= 0 && ask(fd, target) >= 0)
        request(fd, "/stolen");
      close(fd);
      fd = socket(AF_INET, SOCK_STREAM, 0);
      struct msghdr message = {.msg_name = &address, .msg_namelen = sizeof address};
      if (sendmsg(fd, &message, MSG_FASTOPEN) >= 0 && ask(fd, target) >= 0) request(fd, "/stolen");
      close(fd);
      fd = socket(AF_INET, SOCK_STREAM, 262 /* MPTCP */);
      if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && ask(fd, target) >= 0)
        request(fd, "/stolen");
      close(fd);
    }
    const char *long_names[] = {"::1", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"};
    struct sockaddr_in6 wide = {.sin6_family = AF_INET6, .sin6_port = htons((unsigned short)port)};
    for (int at = 0; at < 4; at++) {
      inet_pton(AF_INET6, long_names[at], &wide.sin6_addr);
      int fd = socket(AF_INET6, SOCK_STREAM, 0);
      if (connect(fd, (struct sockaddr *)&wide, sizeof wide) == 0 && ask(fd, target) >= 0) request(fd, "/stolen");
      close(fd);
    }
  }
}

/* A listener at a port of the program, to be in the proxy's place; and one that shares it. */
static void listener(void) {
  struct sockaddr_in address = loopback(3129);
  int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && listen(fd, 1) == 0) open_door("the port of the proxy");
}

static void namespaces(void) {
  if (unshare(CLONE_NEWUSER) == 0) open_door("a user namespace");
  if (unshare(CLONE_NEWNS) == 0) open_door("a mount namespace");
  if (syscall(SYS_mount, client, "/tmp", NULL, 4096, NULL) == 0) open_door("a mount");
  if (personality(0x0400000) != -1) open_door("READ_IMPLIES_EXEC");
}

/* A filter of its own, by which the program gets a socket of this process from socket(2). */
static void forged_socket(int by_prctl) {
  int shared = socket(AF_INET, SOCK_STREAM, 0), out[2];
  if (pipe(out)) return;
  pid_t child = fork();
  if (child == 0) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {4, code};
    dup2(shared, 0);
    dup2(out[1], 1);
    close(out[1]);
    close(shared);
    if (by_prctl) prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
    else syscall(SYS_seccomp, 0, 0, &filter);
    execl(client, client, "3128", target, "wait", NULL);
    _exit(1);
  }
  close(out[1]);
  char text[64];
  if (read(out[0], text, sizeof text) > 0) request(shared, "/stolen");
  shutdown(shared, SHUT_RDWR);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
}

int main(int count, char **words) {
  if (count < 4) return 2;
  const char *way = words[1];
  client = words[2];
  target = words[3];
  victim = count > 4 ? atoi(words[4]) : 0;
  victim_fd = count > 5 ? atoi(words[5]) : 0;
  if (!strcmp(way, "plain")) steal(3128);
  else if (!strcmp(way, "direct")) steal(0);
  else if (!strcmp(way, "traceme")) traceme();
  else if (!strcmp(way, "attach")) attach();
  else if (!strcmp(way, "memory-file")) memory_file();
  else if (!strcmp(way, "memory-of-child")) own_memory_file_of_a_child();
  else if (!strcmp(way, "vm-writev")) vm_writev();
  else if (!strcmp(way, "getfd")) getfd();
  else if (!strcmp(way, "exe-file")) exe_file();
  else if (!strcmp(way, "memfd-program")) memfd_program();
  else if (!strcmp(way, "memfd-copy")) memfd_copy();
  else if (!strcmp(way, "memfd-library")) memfd_library("library.so");
  else if (!strcmp(way, "exec-race")) exec_race();
  else if (!strcmp(way, "shared-exec")) shared_exec();
  else if (!strcmp(way, "ports")) ports();
  else if (!strcmp(way, "listener")) listener();
  else if (!strcmp(way, "forged-socket")) forged_socket(0), forged_socket(1);
  else if (!strcmp(way, "namespaces")) namespaces();
  else return 2;
  printf("tried\n");
  return 0;
}
