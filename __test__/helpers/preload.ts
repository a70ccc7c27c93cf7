/**
 * A library that a host loads before the C library (LD_PRELOAD, ld.so(8)), to change what it sees of the system. Compiled
 * by the `cc` that Rust links with.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

export interface Library {
  /** The value of LD_PRELOAD. */
  file: string
  remove(): void
}

/** Only the host itself gets it: the variable is removed before the program starts. */
const notInherited = `
#include <stdlib.h>
__attribute__((constructor)) static void keep_to_this_process(void) { unsetenv("LD_PRELOAD"); }
`

/** Compiles C. Throws the compiler's message. */
export function compile(source: string): Library {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-preload-'))
  const [text, file] = [path.join(directory, 'library.c'), path.join(directory, 'library.so')]
  writeFileSync(text, source + notInherited)
  execFileSync('cc', ['-shared', '-fPIC', '-O1', '-o', file, text])
  return { file, remove: () => rmSync(directory, { recursive: true, force: true }) }
}
