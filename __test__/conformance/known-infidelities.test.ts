import { differs } from '../helpers/conformance'

/** What one bash would do. Each of these is known to come out differently; the table is to get shorter. */
differs([
  {
    name: 'row 26: a DEBUG trap that fails, with extdebug',
    reason: "it skips the engine's commands as it skips the user's, so the report of that command is lost",
    steps: [{ run: "shopt -s extdebug; trap 'false' DEBUG" }, { run: 'echo skipped', code: 1 }],
  },
  {
    name: 'row 25: a copy of standard output used by a later command',
    reason: 'each command has a standard output of its own, and that of the earlier command has ended',
    steps: [
      { run: 'exec 3>&1; /bin/echo a >&3', out: 'a\n' },
      { run: 'echo b >&3', out: 'b\n' },
    ],
  },
  {
    name: 'row 26: a DEBUG trap in a trace',
    reason: 'it is set for each command anew, and the trace shows it',
    steps: [
      { run: "trap 'echo D' DEBUG; set -x", out: 'D\n' },
      { run: ':', out: 'D\n', err: '++ echo D\n++ :\n' },
    ],
  },
])
