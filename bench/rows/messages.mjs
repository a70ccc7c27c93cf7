/**
 * Messages with a program of the same runtime, beside `child_process.fork`, alternating: a small one there and back, and 100 MB
 * in messages of 64 kB each way. A sender waits for each message until it was taken.
 */
import { fork } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { roundRobin, summarizeEach } from '../stats.mjs'

export const title = 'Messages with a program'
export const variants = ['']

const LONG = 'x'.repeat(64_000)
const COUNT = Math.ceil(100_000_000 / LONG.length)
const PROGRAM = `
  const long = 'x'.repeat(${LONG.length})
  let received = 0
  process.on('message', (message) => {
    if (message === 'small') process.send(message)
    else if (message !== 'send') {
      if (++received % ${COUNT} === 0) process.send('all')
    } else {
      let left = ${COUNT}
      const next = () => left-- > 0 && process.send(long, next)
      next()
    }
  })`

export async function measure(_variant, { quick }) {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-bench-'))
  const file = path.join(directory, 'program.cjs')
  writeFileSync(file, PROGRAM)
  const sandbox = new Sandbox()
  const peers = { 'child_process.fork': ofFork(fork(file)), nacre: await ofNacre(sandbox, file) }
  const actionsOf = (act) =>
    Object.fromEntries(Object.entries(peers).map(([name, peer]) => [name, () => act(peer)]))
  try {
    const measured = {}
    const burst = quick ? 50 : 200
    const row = async (what, act, settings) => {
      measured[what] = summarizeEach(await roundRobin(actionsOf(act), settings))
    }
    await row('a small message, there and back', echo, { rounds: quick ? 4 : 10, burst, warmups: 2 })
    await row('100 MB from the program', receive, { rounds: quick ? 3 : 10, warmups: 1 })
    await row('100 MB to the program', send, { rounds: quick ? 3 : 10, warmups: 1 })
    return measured
  } finally {
    for (const peer of Object.values(peers)) peer.end()
    await sandbox.destroy()
    rmSync(directory, { recursive: true })
  }
}

async function echo({ send, next }) {
  await send('small')
  await next(1)
}

async function receive({ send, next }) {
  await send('send')
  await next(COUNT)
}

async function send({ send, next }) {
  for (let left = COUNT; left > 0; left--) await send(LONG)
  await next(1)
}

/** `next` resolves when that many messages have come. */
function ofFork(child) {
  let [wanted, found] = [0, 0]
  /** @type {(value?: unknown) => void} */
  let resolve = () => {}
  child.on('message', () => {
    if (++found >= wanted) resolve()
  })
  return {
    send: (message) => new Promise((sent) => child.send(message, sent)),
    next(count) {
      wanted += count
      return found >= wanted
        ? undefined
        : new Promise((arrived) => {
            resolve = arrived
          })
    },
    end: () => child.kill(),
  }
}

async function ofNacre(sandbox, file) {
  const process = await sandbox.startProcess([globalThis.process.execPath, file], { ipc: true })
  const messages = process.messages()
  return {
    send: (message) => process.send(message),
    async next(count) {
      for (let left = count; left > 0; left--) await messages.next()
    },
    end: () => {},
  }
}
