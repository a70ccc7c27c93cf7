/** examples/moves, run to its end. */
import { expect, it } from 'vitest'
import { openExample } from '../helpers/example.js'

it('goes on with a session of a machine that is gone', async () => {
  const example = await openExample('moves')
  try {
    expect(await example.run('main.js')).toEqual({
      exitCode: 0,
      stderr: '',
      stdout: `$ cd src; greet() { sh greet.sh "$@"; }
$ sed -i 's/hello/hello, $1/' greet.sh
$ export WHO=world; greet $WHO
hello, world
suspended: 2 files, sessions: default
missing: job 1: sleep 600
$ basename $PWD; greet $WHO; echo "on $MACHINE"
src
hello, world
on two
modified src/greet.sh
committed: echo "hello, $1"
`,
    })
  } finally {
    example.remove()
  }
}, 60_000)
