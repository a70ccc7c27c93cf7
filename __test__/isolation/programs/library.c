/* A library that takes the connection of the program that loads it, and one of nothing but data. */
#ifdef DATA
char nothing_but_data[64] = "data";
#else
#include "tunnel.h"

__attribute__((constructor)) static void steal(void) {
  const char *target = getenv("TARGET");
  int fd = tunnel(3128, target ? target : "");
  if (fd >= 0) request(fd, "/stolen");
  else fprintf(stderr, "loaded, and refused\n");
}

/* What LD_AUDIT asks for first. */
unsigned la_version(unsigned version) { return version; }
#endif
