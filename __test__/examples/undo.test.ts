/** examples/undo, run to its end. */
import { expect, it } from 'vitest'
import { openExample } from '../helpers/example.js'

it('takes back what the agent broke, and commits the rest', async () => {
  const example = await openExample('undo')
  try {
    expect(await example.run('main.js')).toEqual({
      exitCode: 0,
      stderr: '',
      stdout: `$ sed -i 's/hello/hello, $1/' src/greet.sh
$ sed -i 's/hello/hello, you/; s/greet.sh/greet.sh you/' test/run.sh
$ cd src; DEBUG=1
$ echo "exit $DEBUG" > greet.sh
$ rm -rf ../test; cd ..
undone: rm -rf ../test; cd ..
undone: echo "exit $DEBUG" > greet.sh
the shell: src 1
modified src/greet.sh
modified test/run.sh
committed: echo "hello, $1"
`,
    })
  } finally {
    example.remove()
  }
}, 60_000)
