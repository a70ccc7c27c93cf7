/** Random reads, writes, lists, renames, copies and removals against a model in memory. */
import { existsSync } from 'node:fs'
import { expect, it } from 'vitest'
import type { AnySandbox } from '../contract/helper.js'
import { withClient } from '../contract/helper.js'
import { withSandbox } from '../helpers/invariants.js'
import { type Random, withRandom } from '../helpers/random.js'

const STEPS = 150
const NAMES = ['a', 'b', 'ä', 'x y', '-r']
const DIRECTORY = Symbol('directory')

/** Files by path; what has no content is a directory. */
class Model {
  readonly entries = new Map<string, Buffer | typeof DIRECTORY>()

  parentOf(path: string): string | undefined {
    const slash = path.lastIndexOf('/')
    return slash < 0 ? undefined : path.slice(0, slash)
  }

  /** The code that the first part of the way gives; undefined when all parts are directories. */
  wayTo(path: string, makes: boolean): string | undefined {
    const parts = path.split('/')
    for (let length = 1; length < parts.length; length++) {
      const entry = this.entries.get(parts.slice(0, length).join('/'))
      if (entry === undefined) return makes ? undefined : 'FILE_NOT_FOUND'
      if (entry !== DIRECTORY) return 'NOT_A_DIRECTORY'
    }
    return undefined
  }

  makeParents(path: string): void {
    const parent = this.parentOf(path)
    if (parent === undefined) return
    this.makeParents(parent)
    if (!this.entries.has(parent)) this.entries.set(parent, DIRECTORY)
  }

  below(path: string): string[] {
    return [...this.entries.keys()].filter((name) => name.startsWith(`${path}/`))
  }

  write(path: string, data: Buffer, append: boolean): string | undefined {
    const code = this.wayTo(path, true)
    if (code !== undefined) return code
    const old = this.entries.get(path)
    if (old === DIRECTORY) return 'IS_A_DIRECTORY'
    this.makeParents(path)
    this.entries.set(path, append && old ? Buffer.concat([old, data]) : data)
    return undefined
  }

  mkdir(path: string): string | undefined {
    const code = this.wayTo(path, true)
    if (code !== undefined) return code
    if (this.entries.has(path)) return 'FILE_EXISTS'
    this.makeParents(path)
    this.entries.set(path, DIRECTORY)
    return undefined
  }

  remove(path: string, recursive: boolean): string | undefined {
    const code = this.wayTo(path, false)
    if (code !== undefined) return code
    if (!this.entries.has(path)) return 'FILE_NOT_FOUND'
    const below = this.below(path)
    if (below.length > 0 && !recursive) return 'IS_A_DIRECTORY'
    for (const name of [path, ...below]) this.entries.delete(name)
    return undefined
  }

  copy(from: string, to: string): string | undefined {
    const source = this.entries.get(from)
    const code = this.wayTo(from, false) ?? (source === undefined ? 'FILE_NOT_FOUND' : this.wayTo(to, false))
    if (code !== undefined || source === undefined) return code
    if (from === to) return 'INVALID_PATH'
    const target = this.entries.get(to)
    if (source === DIRECTORY && target === undefined && to.startsWith(`${from}/`)) return 'INVALID_PATH'
    if (source === DIRECTORY && target !== undefined) return 'FILE_EXISTS'
    if (target === DIRECTORY) return 'IS_A_DIRECTORY'
    for (const name of [from, ...this.below(from)])
      this.entries.set(to + name.slice(from.length), this.entries.get(name) ?? DIRECTORY)
    return undefined
  }

  rename(from: string, to: string): string | undefined {
    const source = this.entries.get(from)
    const code = this.wayTo(from, false) ?? this.wayTo(to, false) ?? (source ? undefined : 'FILE_NOT_FOUND')
    if (code !== undefined || source === undefined) return code
    if (from === to) return undefined
    if (source === DIRECTORY && to.startsWith(`${from}/`)) return 'INVALID_PATH'
    const target = this.entries.get(to)
    // The original is inside: rename(2) looks at that first.
    if (target === DIRECTORY && from.startsWith(`${to}/`)) return 'FILE_EXISTS'
    if (source === DIRECTORY && target !== undefined) {
      if (target !== DIRECTORY) return 'NOT_A_DIRECTORY'
      if (this.below(to).length > 0) return 'FILE_EXISTS'
    } else if (target === DIRECTORY) return 'IS_A_DIRECTORY'
    for (const name of [from, ...this.below(from)]) {
      this.entries.set(to + name.slice(from.length), this.entries.get(name) ?? DIRECTORY)
      this.entries.delete(name)
    }
    return undefined
  }
}

async function codeOf(call: Promise<unknown>): Promise<string | undefined> {
  try {
    await call
    return undefined
  } catch (error) {
    return (error as { code: string }).code
  }
}

async function compare({ files }: AnySandbox, random: Random, log: string[]): Promise<void> {
  const model = new Model()
  const name = () => NAMES[random.below(NAMES.length)] ?? 'a'
  const path = () => Array.from({ length: 1 + random.below(3) }, name).join('/')
  for (let step = 0; step < STEPS; step++) {
    const [from, to] = [path(), path()]
    const kind = random.below(6)
    log.push(`${kind} ${from} ${to}`)
    if (kind < 2) {
      const [data, append] = [random.bytes(random.below(50)), random.below(3) === 0]
      expect(await codeOf(files.write(from, data, { append }))).toBe(model.write(from, data, append))
    } else if (kind === 2) expect(await codeOf(files.mkdir(from))).toBe(model.mkdir(from))
    else if (kind === 3) {
      const recursive = random.below(2) === 0
      expect(await codeOf(files.remove(from, { recursive }))).toBe(model.remove(from, recursive))
    } else if (kind === 4)
      expect(await codeOf(files.copy(from, to, { recursive: true }))).toBe(model.copy(from, to))
    else expect(await codeOf(files.rename(from, to))).toBe(model.rename(from, to))
    if (step % 10 !== 9) continue
    const list = await files.list('.', { recursive: true })
    expect(list.map((file) => file.path)).toEqual([...model.entries.keys()].sort())
    for (const file of list) {
      const entry = model.entries.get(file.path)
      expect(file.type).toBe(entry === DIRECTORY ? 'directory' : 'file')
      if (entry !== DIRECTORY)
        expect(Buffer.from(await files.read(file.path, { encoding: 'buffer' }))).toEqual(entry)
    }
  }
}

for (const place of ['in this process', 'over HTTP'])
  it(`files behave as the model, ${place}`, () =>
    withRandom((random) =>
      withSandbox(async (workplace) => {
        const log: string[] = []
        try {
          if (place === 'in this process') await compare(workplace.sandbox, random, log)
          else await withClient(workplace, (client) => compare(client as unknown as AnySandbox, random, log))
        } catch (error) {
          if (error instanceof Error) error.message += `\nafter ${log.slice(-5).join('; ')}`
          throw error
        }
        expect(existsSync(workplace.directory)).toBe(true)
      }),
    ))
