/** Files that cross the router: they survive its time limit and broken connections, byte for byte. */
import { createHash, randomBytes, randomUUID } from 'node:crypto'
import type { FleetSandbox, SandboxFleet } from '@nacre/fleet'
import type { SandboxClient } from 'nacre/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { holds, until } from '../../../__test__/helpers/until.js'
import { Cluster } from './cluster/cluster.js'

/** Larger than what connections buffer. */
const SIZE = 48 * 1024 * 1024

let cluster: Cluster
let fleet: SandboxFleet
let sandbox: FleetSandbox
let client: SandboxClient

beforeAll(async () => {
  cluster = await new Cluster({ pool: 1, limit: 250 }).start()
  fleet = cluster.fleet()
  sandbox = await fleet.create()
  client = sandbox.client
}, 60_000)

afterAll(() => cluster[Symbol.asyncDispose](), 60_000)

const sha256 = (data: Uint8Array) => createHash('sha256').update(data).digest('hex')

/** The hash of a file in the sandbox, by its own tools. */
async function hashOf(file: string): Promise<string> {
  return (await client.exec(`sha256sum ${file}`)).stdout.slice(0, 64)
}

/** Resolves when the router has cut a request that began before. */
function nextCut(): Promise<unknown> {
  const seen = cluster.router.cuts()
  return until(
    () => cluster.router.cuts() > seen || undefined,
    () => 'no request is cut',
  )
}

/** Makes a file of random bytes in the sandbox. */
async function makeFile(): Promise<{ file: string; hash: string }> {
  const file = randomUUID()
  await client.exec(`head -c ${SIZE} /dev/urandom > ${file}`)
  return { file, hash: await hashOf(file) }
}

describe('a download', () => {
  beforeAll(() => cluster.router.cutAfter(SIZE / 4))
  afterAll(() => cluster.router.cutAfter(Number.POSITIVE_INFINITY))

  it('continues after it was cut, as a stream', async () => {
    const { file, hash } = await makeFile()
    const cuts = cluster.router.cuts()
    const digest = createHash('sha256')
    let length = 0
    for await (const piece of client.files.readStream(file)) {
      digest.update(piece)
      length += piece.length
    }
    expect(length).toBe(SIZE)
    expect(digest.digest('hex')).toBe(hash)
    expect(cluster.router.cuts()).toBeGreaterThan(cuts + 2)
  })

  it('continues within the requested range', async () => {
    const { file } = await makeFile()
    const [start, end] = [1000, SIZE - 1000]
    const pieces: Uint8Array[] = []
    for await (const piece of client.files.readStream(file, { start, end })) pieces.push(piece)
    const { stdout } = await client.exec(`tail -c +1001 ${file} | head -c ${end + 1 - start} | sha256sum`)
    expect(sha256(Buffer.concat(pieces))).toBe(stdout.slice(0, 64))
  })

  it('survives connections that break, as a whole', async () => {
    const { file, hash } = await makeFile()
    const seen = cluster.router.opened()
    const reading = client.files.read(file, { encoding: 'buffer' })
    await holds(() => cluster.router.opened() > seen)
    cluster.router.break()
    expect(sha256(await reading)).toBe(hash)
  })

  it('fails when the file has changed meanwhile', async () => {
    const { file } = await makeFile()
    const reader = client.files.readStream(file).getReader()
    await reader.read()
    await client.exec(`printf x | dd of=${file} conv=notrunc status=none`)
    const rest = async () => {
      while (!(await reader.read()).done);
    }
    expect(await rejectionOf(rest())).toMatchObject({
      code: 'CONNECTION_FAILED',
      message: expect.stringContaining('has changed'),
    })
  })
})

describe('an upload', () => {
  it('may take longer than the router allows', async () => {
    const file = randomUUID()
    const data = randomBytes(SIZE)
    async function* source() {
      for (let start = 0; start < SIZE; start += 1e7) {
        yield data.subarray(start, start + 1e7)
        // A request that takes longer than the limit is cut meanwhile.
        await Promise.all([nextCut(), client.exec('sleep 0.4', { sessionId: 'other' })])
      }
    }
    await client.createSession({ id: 'other' })
    const info = await client.files.write(file, source())
    expect(info.size).toBe(SIZE)
    expect(await hashOf(file)).toBe(sha256(data))
  })

  it('writes each byte once when connections break', async () => {
    const file = randomUUID()
    const data = randomBytes(SIZE)
    await client.files.write(file, 'first\n')
    let isOver = false
    const writing = client.files.write(file, data, { append: true }).finally(() => {
      isOver = true
    })
    for (let seen = cluster.router.opened(), breaks = 0; breaks < 5 && !isOver; breaks++) {
      await holds(() => isOver || cluster.router.opened() > seen)
      seen = cluster.router.opened()
      cluster.router.break()
    }
    await writing
    expect(await hashOf(file)).toBe(sha256(Buffer.concat([Buffer.from('first\n'), data])))
  })

  it('works with the longest patience of a client', async () => {
    await using patient = cluster.fleet({ reconnectTimeout: 2_147_483_647 })
    const file = randomUUID()
    async function* source() {
      yield 'patient'
    }
    const same = await patient.get(sandbox.id)
    expect((await same?.client.files.write(file, source()))?.size).toBe(7)
  })

  it('leaves the old file and nothing else when its source fails', async () => {
    const directory = randomUUID()
    await client.files.write(`${directory}/file`, 'old')
    async function* source() {
      yield 'new'
      throw new RangeError('of the source')
    }
    expect(await rejectionOf(client.files.write(`${directory}/file`, source()))).toMatchObject({
      name: 'RangeError',
      message: 'of the source',
    })
    await holds(async () => (await client.exec(`ls -A ${directory}`)).stdout === 'file\n')
    expect(await client.files.read(`${directory}/file`)).toBe('old')
  })

  it('ends with its signal, although the source is silent', async () => {
    const file = randomUUID()
    const abort = new AbortController()
    let isReturned = false
    const source = {
      [Symbol.asyncIterator]: () => ({
        next: () => new Promise<never>(() => setTimeout(() => abort.abort(), 10)),
        return: async () => {
          isReturned = true
          return { done: true as const, value: undefined }
        },
      }),
    }
    const writing = client.files.write(file, source, { signal: abort.signal })
    expect(await rejectionOf(writing)).toMatchObject({ name: 'AbortError' })
    expect(isReturned).toBe(true)
    expect(await client.files.exists(file)).toBe(false)
  })
})
