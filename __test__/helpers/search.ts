/** Searches the memory of processes, and files, for a value in the forms that programs give it. */
import { closeSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs'
import path from 'node:path'
import { descendants } from './proc.js'

/** Bytes of one mapping. Larger ones are those of runtimes, which reserve them. */
const MOST_BYTES = 64 << 20

/** The forms of a value: as it is, escaped, in base64 behind any text, as numbers, and backwards. */
function formsOf(value: string): Buffer[] {
  const base64 = ['', 'a', 'aa'].map((before) => Buffer.from(before + value).toString('base64'))
  // Only these letters depend on the value alone.
  const inner = base64.map((text) => text.replace(/=+$/, '').slice(4, -4))
  const percent = encodeURIComponent(value)
  const texts = [
    ...[value, percent, percent.replace(/%../g, (part) => part.toLowerCase())],
    ...[JSON.stringify(value).slice(1, -1), value.replaceAll('/', '\\/')],
    ...[value.replaceAll('&', '&amp;').replaceAll('"', '&quot;'), Buffer.from(value).toString('hex')],
    ...[...inner, ...inner.map((text) => text.replaceAll('+', '-').replaceAll('/', '_'))],
    [...value].reverse().join(''),
  ]
  return [...texts.map((text) => Buffer.from(text)), Buffer.from(value, 'utf16le')]
}

export class Search {
  readonly #forms: Buffer[]
  /** Where the value is. */
  readonly found = new Set<string>()
  /** The names of the programs whose memory was read. */
  readonly programs = new Set<string>()

  constructor(value: string) {
    this.#forms = formsOf(value)
  }

  bytes(place: string, bytes: Buffer): void {
    for (const form of this.#forms) if (bytes.includes(form)) this.found.add(`${place}: ${form}`)
  }

  text(place: string, value: unknown): void {
    this.bytes(place, Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)))
  }

  /** All files below a directory, and their names. */
  files(directory: string): void {
    for (const entry of readdirSync(directory, { withFileTypes: true })) {
      const file = path.join(directory, entry.name)
      this.text(file, file)
      if (entry.isDirectory()) this.files(file)
      else if (entry.isFile()) this.bytes(file, readFileSync(file))
    }
  }

  /** What the kernel shows of everything that this process has started, and its memory. */
  processes(): void {
    for (const { pid } of descendants(process.pid)) {
      try {
        const name = readFileSync(`/proc/${pid}/comm`, 'utf8').trim()
        for (const file of ['environ', 'cmdline', 'maps', 'mountinfo'])
          this.bytes(`${name}: ${file}`, readFileSync(`/proc/${pid}/${file}`))
        this.#memory(pid, name)
      } catch (error) {
        // It has ended meanwhile, or only root can read it, like a supervisor.
        const { code = '' } = error as NodeJS.ErrnoException
        if (!['ENOENT', 'ESRCH', 'EIO', 'EACCES', 'EPERM'].includes(code)) throw error
      }
    }
  }

  #memory(pid: number, name: string): void {
    const memory = openSync(`/proc/${pid}/mem`, 'r')
    try {
      for (const line of readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
        const [range = '', rights = ''] = line.split(' ')
        const [begin = 0, end = 0] = range.split('-').map((text) => Number.parseInt(text, 16))
        if (!rights.startsWith('rw') || end - begin > MOST_BYTES) continue
        const bytes = Buffer.alloc(end - begin)
        const length = readSync(memory, bytes, 0, bytes.length, begin)
        this.bytes(`${name}: memory`, bytes.subarray(0, length))
        this.programs.add(name)
      }
    } finally {
      closeSync(memory)
    }
  }
}
