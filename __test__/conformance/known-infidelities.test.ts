import { differs } from '../helpers/conformance.js'

/** What one bash would do. Each of these is known to come out differently; the table is to get shorter. */
differs({
  'a copy of standard output used by a later command': {
    reason: 'each command has a standard output of its own, and that of the earlier command has ended',
    steps: [
      { run: 'exec 3>&1; /bin/echo a >&3', out: 'a\n' },
      { run: 'echo b >&3', out: 'b\n' },
    ],
  },
})
