/**
 * Thousands of commands in a row leave no memory in use.
 *
 * Memory is measured after a garbage collection, and with V8's young generation at a fixed size: by itself it grows by
 * some 25 MB under any load of short-lived objects and stays there, as large after 50,000 commands as after 20,000.
 */
import { expect, it } from 'vitest'
import { usesOf } from './ten-thousand-commands.js'

it('10,000 commands leave no memory in use', async () => {
  const [before, between, after] = await usesOf(10_000, {})
  // What leaks does so in both halves; what a runtime takes once, it takes in one.
  for (const [what, most] of [
    ['heap', 512],
    ['host', 2048],
    ['session', 1024],
  ] as const) {
    const growth = Math.min(between[what] - before[what], after[what] - between[what])
    expect(growth, what).toBeLessThan(most)
  }
}, 70_000)
