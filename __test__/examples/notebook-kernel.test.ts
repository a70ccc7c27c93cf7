/** examples/notebook-kernel, with the notebook that it has. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Example, openExample } from '../helpers/example.js'

let example: Example

beforeAll(async () => {
  example = await openExample('notebook-kernel')
}, 60_000)

afterAll(() => example.remove())

describe('the notebook-kernel example', () => {
  it('streams output, interrupts a cell, keeps the state, and forgets it in a restart', async () => {
    const { exitCode, stdout } = await example.run('main.js')
    expect(stdout).toBe(`> cd /usr; total=0; add() { total=$((total + $1)); }
[1] ok
> add 40; add 2; echo "$total in $PWD"
42 in /usr
[2] ok
> for i in 1 2 3; do echo "epoch $i"; sleep 0.2; done
epoch 1
epoch 2
epoch 3
[3] ok
the output came in pieces
> add 100; echo training; sleep 1000 | cat
training
[4] interrupted
> echo "total is $total"
total is 142
[5] ok
> echo "not closed
bash: -c: line 1: unexpected EOF while looking for matching \`"'
[6] exit code 2
> exit 3
[7] exit code 3
> echo "still $total"
still 142
[8] ok
> echo "total is \${total-unset}"
total is unset
[1] ok
`)
    expect(exitCode).toBe(0)
  })
})
