/*
 * Copies pages during idle time.
 *
 * After a fork, the first write to each page copies it. Every command writes to the same few: the data of bash and
 * its libraries, the top of the stack, the heap. They are copied here, right after the fork of a standby, instead of
 * one by one during the next command.
 */
#include "builtin.h"

#include <link.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum {
  MOST_DATA_BYTES = 1 << 20, /* of one library */
  MOST_HEAP_BYTES = 1 << 20, /* of a larger heap, both ends: */
  HEAP_START_BYTES = 512 << 10,
  HEAP_END_BYTES = 256 << 10,
  STACK_BELOW_BYTES = 24 << 10,
  STACK_ABOVE_BYTES = 8 << 10
};

static uintptr_t page_bytes;

static void populate(uintptr_t from, uintptr_t to) {
  from &= ~(page_bytes - 1);
  to = (to + page_bytes - 1) & ~(page_bytes - 1);
  if (to > from) madvise((void *)from, to - from, MADV_POPULATE_WRITE);
}

/* The part of an object's data that remains writable. */
static int populate_object(struct dl_phdr_info *object, size_t size, void *unused) {
  (void)size;
  (void)unused;
  uintptr_t read_only_end = 0;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &object->dlpi_phdr[i];
    if (part->p_type == PT_GNU_RELRO) read_only_end = object->dlpi_addr + part->p_vaddr + part->p_memsz;
  }
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) *part = &object->dlpi_phdr[i];
    if (part->p_type != PT_LOAD || !(part->p_flags & PF_W)) continue;
    uintptr_t from = object->dlpi_addr + part->p_vaddr, to = from + part->p_memsz;
    if (to - from > MOST_DATA_BYTES) to = from + MOST_DATA_BYTES;
    if (read_only_end > from) from = read_only_end;
    if (from < to) populate(from, to);
  }
  return 0;
}

/* The size of malloc()'s main heap; 0 if malloc() does not report it, as in musl. */
static uintptr_t heap_bytes(void) {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
  return mallinfo2().arena;
#elif defined(__GLIBC__)
  return (unsigned)mallinfo().arena;
#else
  return 0;
#endif
}

/* malloc()'s main heap. */
static void populate_heap(void) {
  static uintptr_t start;
  uintptr_t end = (uintptr_t)sbrk(0);
  if (!start) start = end - heap_bytes();
  if (end - start <= MOST_HEAP_BYTES) {
    populate(start, end);
  } else {
    populate(start, start + HEAP_START_BYTES);
    populate(end - HEAP_END_BYTES, end);
  }
}

/* By writing: there may be no pages below the stack yet. */
static __attribute__((noinline)) void populate_stack(void) {
  volatile char below[STACK_BELOW_BYTES];
  for (int i = STACK_BELOW_BYTES - 1; i >= 0; i -= (int)page_bytes) below[i] = 0;
  populate((uintptr_t)&below[STACK_BELOW_BYTES], (uintptr_t)&below[STACK_BELOW_BYTES] + STACK_ABOVE_BYTES);
}

void warm_pages(void) {
  if (!page_bytes) page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
  dl_iterate_phdr(populate_object, NULL);
  populate_stack();
  populate_heap();
}
