/**
 * Attempts to break out of a session, each a command that prints ESCAPED when it succeeds.
 *
 * Variables name the targets: OUT, a directory outside with the file `canary`; SECRET, a hidden file; VICTIM, a process of
 * the same user with ESCAPED in its environment; COVERED, a directory that a mount covers, whose file `key` holds ESCAPED;
 * PLACE, the source of that mount; JOBS, the directory of durable jobs; TEMPORARY, the directory for temporary
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

/** What stops attempts where mounts enforce the rules for files, and with Landlock alone. As root, capabilities are dropped. */
export interface Group {
  attempts: Attempt[]
  namespaces: string
  landlock: string
}

export const groups: Record<string, Group> = {
  files: {
    attempts: files,
    namespaces: 'mounts: only `write` is writable, hidden paths are covered, `protect` is read-only',
    landlock: 'Landlock: rights only below `write` and `read`; modes and times of own files are not covered',
  },
  machine: {
    attempts: machine,
    namespaces:
      'no capabilities, no_new_privs, read-only /sys and /proc/sys, no devices; the filter refuses namespaces',
    landlock:
      'no capabilities, no_new_privs, Landlock for /sys, /proc and /dev; the filter refuses namespaces',
  },
  modes: {
    attempts: modes,
    namespaces: 'the filter refuses set-ID bits in every call that sets a mode',
    landlock: 'the filter refuses set-ID bits in every call that sets a mode',
  },
  processes: {
    attempts: processes,
    namespaces:
      'a pid namespace; the shell is not dumpable; the filter refuses prlimit64 and priorities of others',
    landlock: 'Landlock scopes signals; the shell is not dumpable, or the filter refuses what would use it',
  },
  network: {
    attempts: network,
    namespaces:
      'a network namespace; the broker judges each connect and sendto; the filter refuses other families',
    landlock: 'the broker judges each connect and sendto; the filter refuses other families',
  },
  'system-calls': {
    attempts: [...calls, ...foreign],
    namespaces: 'the filter, and no capabilities',
    landlock: 'the filter, and no capabilities',
  },
}

export const attempts = Object.values(groups).flatMap((group) => group.attempts)
