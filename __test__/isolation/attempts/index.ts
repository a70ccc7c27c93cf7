/**
 * Attempts to break out of a session, each a command that prints ESCAPED when it succeeds.
 *
 * Variables name the targets: OUT, a directory outside with the file `canary`; SECRET, a hidden file; VICTIM, a process of
 * the same user with ESCAPED in its environment; JOBS, the directory of durable jobs; TEMPORARY, the directory for temporary
 * files of another session; HOST, this process; PORT and UDP, servers that answer ESCAPED; SOCKET and
 * ABSTRACT, Unix sockets that do; SHM, a System V segment that holds ESCAPED.
 */

import type { Attempt } from './attempt.js'
import { files } from './files.js'
import { machine } from './machine.js'
import { modes } from './modes.js'
import { network } from './network.js'
import { processes } from './processes.js'
import { calls, foreign } from './system-calls.js'

export type { Attempt }

export const attempts: Attempt[] = [
  ...files,
  ...machine,
  ...modes,
  ...processes,
  ...network,
  ...calls,
  ...foreign,
]
