/** A notebook with a few cells, run from the command line. */
import { Sandbox } from 'nacre'
import { Kernel } from './kernel.js'

const sandbox = new Sandbox()
const kernel = await Kernel.start(sandbox)

/** Runs a cell and prints it as a notebook does. `onText` is called with each piece of output. */
async function cell(code, onText = () => {}) {
  console.log(code.replace(/^/gm, '> '))
  for await (const event of kernel.execute(code)) {
    if (event.type === 'stream') {
      process.stdout.write(event.text)
      onText(event.text)
    } else {
      console.log(`[${event.number}] ${event.status}`)
    }
  }
}

await cell('cd /usr; total=0; add() { total=$((total + $1)); }')
await cell('add 40; add 2; echo "$total in $PWD"')

// Output arrives while the cell runs.
let pieces = 0
await cell('for i in 1 2 3; do echo "epoch $i"; sleep 0.2; done', () => pieces++)
console.log(pieces >= 3 ? 'the output came in pieces' : 'the output came as a whole')

// A cell that would never end is interrupted after its first output, and everything that it started is killed.
await cell('add 100; echo training; sleep 1000 | cat', () => void kernel.interrupt())
await cell('echo "total is $total"')

// Mistakes do not end the kernel.
await cell('echo "not closed')
await cell('exit 3')
await cell('echo "still $total"')

// A restart forgets everything.
await kernel.restart()
await cell('echo "total is ${total-unset}"')

await sandbox.destroy()
