/** Large replies about a workspace leave the server in pieces of bounded size. */
import type { Change } from 'nacre'
import { protocol } from 'nacre/internal/server'
import { expect, it } from 'vitest'
import { listPieces } from '../lib/long-list.js'
import { patchReply } from '../lib/v1/workspace.js'

const { reply } = protocol.workspaceCalls.changes

function changes(count: number): Change[] {
  return Array.from({ length: count }, (_, index) => {
    const path = `directory/f${index}`
    const entry = { kind: 'file', size: index, mode: 0o644 } as const
    return { path, pathBytes: Buffer.from(path), type: 'created', ...entry, before: null }
  })
}

it('the changes of 200,000 files', async () => {
  const all = changes(200_000)
  let [turns, isOver, count, longest, text] = [0, false, 0, 0, '']
  const turn = () => {
    turns++
    if (!isOver) setImmediate(turn)
  }
  setImmediate(turn)
  for await (const piece of listPieces(reply, all) ?? []) {
    count++
    longest = Math.max(longest, piece.length)
    text += Buffer.from(piece).toString()
  }
  isOver = true
  expect([count > 400, longest < 100_000]).toEqual([true, true])
  // Other work has its turn between two pieces.
  expect(turns).toBeGreaterThanOrEqual(count - 2)
  expect(text.split('\n')).toHaveLength(200_002)
  expect(JSON.parse(text).changes.map((change: Change) => change.path)).toEqual(all.map(({ path }) => path))
})

it('a short list, and a reply that is none, have one piece', () => {
  expect(listPieces(reply, changes(500))).toBe(undefined)
  expect(listPieces(protocol.workspaceCalls.usage.reply, { layers: 1 } as never)).toBe(undefined)
  expect(listPieces(protocol.workspaceCalls.delete.reply, undefined)).toBe(undefined)
})

it('a patch', async () => {
  const patch = new Uint8Array(5_000_001).map((_, index) => index)
  const { first, source } = patchReply(patch)
  const pieces = []
  for (let piece = first; piece !== undefined; piece = await source?.read()) pieces.push(piece)
  expect(pieces.map(({ length }) => length)).toEqual([...Array(4).fill(2 ** 20), 5_000_001 - 2 ** 22])
  expect(Buffer.compare(Buffer.concat(pieces), patch)).toBe(0)
})
