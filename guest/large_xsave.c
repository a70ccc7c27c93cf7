// Preloaded into the guest's kernel (User Mode Linux 6.1), which keeps 4096 bytes of a thread's vector registers. A
// processor with AMX has 11008 bytes, and Linux refuses to set less than all of them (xstateregs_set in
// arch/x86/kernel/fpu/regset.c). So what the guest sets is laid over what the thread has. The guest hides AMX from no
// program, and none of the programs that it runs uses AMX.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

long ptrace(enum __ptrace_request request, ...) {
  va_list list;
  va_start(list, request);
  pid_t pid = va_arg(list, pid_t);
  void *address = va_arg(list, void *);
  void *data = va_arg(list, void *);
  va_end(list);
  long (*next)(enum __ptrace_request, ...) = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");
  if (request != PTRACE_SETREGSET || (long)address != NT_X86_XSTATE) return next(request, pid, address, data);
  static char all[65536];
  const struct iovec *part = data;
  struct iovec whole = {all, sizeof all};
  if (next(PTRACE_GETREGSET, pid, address, &whole) < 0) return -1;
  memcpy(all, part->iov_base, part->iov_len < whole.iov_len ? part->iov_len : whole.iov_len);
  return next(request, pid, address, &whole);
}
