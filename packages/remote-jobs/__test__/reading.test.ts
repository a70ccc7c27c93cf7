/** Reading remote jobs: exact bytes through a reply that is text, by offset, in one call each. */
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { withRandom } from '../../../__test__/helpers/random.js'
import { all } from '../../../__test__/helpers/stream.js'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { inEveryShell, itRemotely, shells, untilPrintedBy, withRemoteJobs } from './places.js'

inEveryShell('reading a remote job', (shell) => {
  itRemotely(shell, 'any slice of any bytes equals what was printed', ({ jobs }) =>
    withRandom(async (random) => {
      const bytes = random.bytes(300_000)
      const job = await jobs.start({ command: 'cat', stdin: bytes })
      await jobs.wait(job)
      const places = [0, 1, 65535, 65536, 65537, 131_073, 299_999, 300_000, 1e9]
      for (const cursor of places) {
        const read = await jobs.read(job, cursor, { encoding: 'buffer', maxBytes: 70_000 })
        const expected = bytes.subarray(cursor, cursor + 70_000)
        expect(Buffer.compare(Buffer.from(read.raw), expected)).toBe(0)
        expect(read).toMatchObject({ cursor: cursor + expected.length, bytesFetched: expected.length })
      }
      const text = (await all(jobs.follow(job, 0, { maxBytes: 100_003 }))).map(({ raw }) => raw).join('')
      expect(text).toBe(bytes.toString('utf8'))
    }),
  )

  itRemotely(shell, 'lines and characters are not split while the job runs', async ({ jobs }) => {
    const job = await jobs.start({
      command: 'printf "one\\ntwo \\342\\202"; sleep 600',
    })
    await untilPrintedBy(jobs, job, 'two ')
    expect((await jobs.read(job)).raw).toBe('one\ntwo ')
    expect(await jobs.read(job, 0, { lines: true })).toMatchObject({ raw: 'one\n', cursor: 4 })
    await jobs.cancel(job)
    const pieces = await jobs.start({
      command: 'printf "a\\nb"; sleep 0.4; printf "c\\nd"; sleep 0.4; printf e',
    })
    const lines = (await all(jobs.follow(pieces, 0, { lines: true }))).map(({ raw }) => raw)
    expect(lines.join('')).toBe('a\nbc\nde')
    for (const line of lines.slice(0, -1)) expect(line.endsWith('\n')).toBe(true)
  })

  itRemotely(shell, 'follow goes on while processes outlive the command', async ({ jobs, root }) => {
    const gate = path.join(path.dirname(root), 'gate')
    const job = await jobs.start({
      command: `{ until [ -e '${gate}' ]; do sleep 0.01; done; printf '\\204\\n'; } & printf 'a\\303'`,
    })
    expect(await jobs.wait(job)).toMatchObject({ state: 'exited', alive: true })
    expect(await jobs.read(job)).toMatchObject({ raw: 'a', cursor: 1 })
    const pieces = jobs.follow(job)
    expect((await pieces.next()).value?.raw).toBe('a')
    writeFileSync(gate, '')
    expect((await all(pieces)).map(({ raw }) => raw).join('')).toBe('Ä\n')
  })

  itRemotely(
    shell,
    'a reader that is replaced reads on where the one before was',
    async ({ jobs, again }) => {
      const job = await jobs.start({
        command: 'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "line $i"; done',
      })
      const hash = createHash('sha256')
      let [cursor, readers] = [0, 0]
      for (let over = false; !over; readers++) {
        over = true
        for await (const piece of again().follow(job, cursor, { encoding: 'buffer', maxBytes: 5000 })) {
          hash.update(piece.raw)
          cursor = piece.cursor
          over = false
          break
        }
      }
      const expected = Array.from({ length: 3000 }, (_, index) => `line ${index + 1}\n`).join('')
      expect(cursor).toBe(expected.length)
      expect(hash.digest('hex')).toBe(createHash('sha256').update(expected).digest('hex'))
      expect(readers).toBeGreaterThan(5)
    },
  )
})

for (const shell of shells.slice(0, 1)) {
  it('follow and wait can be given up, and hold no call open meanwhile', () =>
    withRemoteJobs(shell, async ({ jobs, calls }) => {
      const job = await jobs.start({ command: 'echo up; sleep 600' })
      await untilPrintedBy(jobs, job, 'up')
      const controller = new AbortController()
      const waiting = rejectionOf(jobs.wait(job, { signal: controller.signal }))
      const following = rejectionOf(all(jobs.follow(job, 0, { signal: controller.signal })))
      const left = jobs.follow(job)
      await left.next()
      const pending = left.next()
      expect(await left.return?.()).toEqual({ done: true, value: undefined })
      expect(await pending).toEqual({ done: true, value: undefined })
      controller.abort('enough')
      for (const error of [await waiting, await following])
        expect(error).toMatchObject({ name: 'AbortError', cause: 'enough' })
      expect(await rejectionOf(jobs.wait(job, { signal: controller.signal }))).toMatchObject({
        name: 'AbortError',
      })
      expect(calls.size).toBe(0)
      expect(await jobs.status(job)).toMatchObject({ state: 'running' })
    }))
}
