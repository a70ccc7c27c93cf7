/**
 * Hides secrets in what models and people get to see. It is help, not a guarantee: `base64` defeats it.
 */
const SECRET_NAME = /TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|PRIVATE/i
/** A shorter value would match too much. */
const SHORTEST_VALUE = 8

/** A key of several lines, whose form {@link Redactor} looks for in linear time. */
const PRIVATE_KEY = /-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----/
const KEY_END = /-----END [A-Z ]{0,32}PRIVATE KEY-----/g

/** Tokens and keys that can be recognized. The lengths are limited, so that the time stays linear. */
export const KNOWN_SECRETS = [
  /\bgh[oprsu]_[A-Za-z0-9]{36,255}/,
  /\bgithub_pat_\w{22,255}/,
  /\bsk-[\w-]{20,255}/,
  /\bAKIA[0-9A-Z]{16}\b/,
  /\bxox[abeoprs]-[\w-]{10,255}/,
  /(?<![\w-])eyJ[\w-]{8,2048}\.eyJ[\w-]{8,4096}\.[\w-]{1,1024}/,
  PRIVATE_KEY,
]

/** The names of variables that look like secrets. */
export function secretNames(env: NodeJS.ProcessEnv): string[] {
  return Object.keys(env).filter((name) => SECRET_NAME.test(name))
}

/** Their values. */
export function secretValues(env: NodeJS.ProcessEnv): string[] {
  return secretNames(env).flatMap((name) => {
    const value = env[name] ?? ''
    return value.length < SHORTEST_VALUE ? [] : [value]
  })
}

const REPLACEMENT = '[redacted]'
/**
 * A shorter part of a value at a cut is shown, and any that has less than half of it. Otherwise, programs that see replies could
 * find out a value letter by letter, by what is hidden.
 */
const SHORTEST_PART = 8
/** A shorter beginning of a value does not wait for the rest. */
const SHORTEST_BEGINNING = 4
/** Lines of a value with several lines are hidden one by one, too: some replies show single lines. */
const SHORTEST_LINE = 8
const LONGEST_KEY = 8192

/** The secrets of a sandbox. */
export interface Hidden {
  /** What programs see in place of each value. */
  readonly placeholders: ReadonlyMap<string, string>
  /** Counts the changes of these. */
  readonly changes: number
}

/** Which ends of a text may be in the middle of a value. */
export interface Cuts {
  start: boolean
  end: boolean
}

export class Redactor {
  readonly #own: readonly string[]
  /** The longest first, since one may contain another. With the secrets of the sandbox. */
  #values: string[] = []
  #hidden: Hidden | undefined
  /** What programs see in place of the secrets of the sandbox: it may have the form of a token, and is none. */
  #placeholders = new Set<string>()
  #changes = -1
  readonly #patterns: RegExp[]
  readonly #hidesKeys: boolean

  constructor(redact: readonly (string | RegExp)[], hidden?: Hidden) {
    const values = redact.filter((item) => typeof item === 'string')
    const lines = values.flatMap((value) => value.split('\n').filter((line) => line.length >= SHORTEST_LINE))
    this.#own = [...values, ...lines]
    this.#hidesKeys = redact.includes(PRIVATE_KEY)
    this.#patterns = redact
      .filter((item) => typeof item !== 'string' && item !== PRIVATE_KEY)
      .map((item) => item as RegExp)
      .map(({ source, flags }) => new RegExp(source, `${flags.replace(/[gy]/g, '')}g`))
    this.follow(hidden)
  }

  /** Also hides the secrets of this sandbox from now on, in place of those of another one. */
  follow(hidden: Hidden | undefined): void {
    this.#hidden = hidden
    this.#changes = -1
  }

  hide(text: string, { start, end }: Cuts = { start: false, end: false }): string {
    this.#update()
    for (const value of this.#values) text = text.replaceAll(value, REPLACEMENT)
    if (this.#hidesKeys) text = hideKeys(text)
    const shown = (found: string) => (this.#placeholders.has(found) ? found : REPLACEMENT)
    for (const pattern of this.#patterns) text = text.replace(pattern, shown)
    if (start) text = this.#hideStart(text)
    return end ? this.#hideEnd(text) : text
  }

  /**
   * How many characters at the end of a text may be the beginning of something to hide: of a value, a word, or a key of
   * several lines. At most 8,192.
   */
  uncertainEnd(text: string): number {
    this.#update()
    const end = text.slice(-LONGEST_KEY)
    const word = end.length - wordStart(end)
    const key = end.lastIndexOf('-----BEGIN ')
    const isOpen = key >= 0 && !end.includes('-----END ', key)
    const beginnings = this.#values.map((value) => overlap(value.slice(0, -1), end))
    const part = Math.max(0, ...beginnings.filter((length) => length >= SHORTEST_BEGINNING))
    return Math.max(word, part, isOpen ? end.length - key : 0)
  }

  /** Sessions that were created meanwhile may have secrets. */
  #update(): void {
    const { placeholders = new Map<string, string>(), changes = 0 } = this.#hidden ?? {}
    if (this.#changes === changes) return
    this.#changes = changes
    this.#placeholders = new Set(placeholders.values())
    const values = new Set([...this.#own, ...placeholders.keys()])
    this.#values = [...values].sort((left, right) => right.length - left.length)
  }

  #hideStart(text: string): string {
    const part = this.#longestPart((value) => overlap(text.slice(0, value.length - 1), value))
    return part === 0 ? text : REPLACEMENT + text.slice(part)
  }

  #hideEnd(text: string): string {
    const part = this.#longestPart((value) => overlap(value.slice(0, -1), text))
    return part === 0 ? text : text.slice(0, -part) + REPLACEMENT
  }

  #longestPart(partOf: (value: string) => number): number {
    let longest = 0
    for (const value of this.#values) {
      const part = partOf(value)
      if (part >= Math.max(SHORTEST_PART, value.length / 2)) longest = Math.max(longest, part)
    }
    return longest
  }
}

/** The length of the longest beginning of one text that is the end of another. The time is linear (Knuth, Morris and Pratt). */
function overlap(beginning: string, text: string): number {
  const end = text.slice(text.length - Math.min(text.length, beginning.length))
  // For each length of a beginning, the next shorter one that is its end.
  const shorter = [0, 0]
  const extended = (length: number, next: string | undefined) => {
    while (length > 0 && beginning[length] !== next) length = shorter[length] as number
    return beginning[length] === next ? length + 1 : 0
  }
  for (let at = 1; at < beginning.length; at++) shorter.push(extended(shorter[at] as number, beginning[at]))
  let length = 0
  for (const next of end.split('')) length = extended(length, next)
  return length
}

/** Where the word at the end of a text begins. An expression like `/[\w.-]*$/` would begin again at each character. */
function wordStart(text: string): number {
  let start = text.length
  while (start > 0 && /[\w.-]/.test(text[start - 1] as string)) start--
  return start
}

/** Each key ends within 8,192 characters. The ends are looked for once, so that many beginnings take no more time. */
function hideKeys(text: string): string {
  const begins = [...text.matchAll(new RegExp(PRIVATE_KEY, 'g'))]
  if (begins.length === 0) return text
  const ends = [...text.matchAll(KEY_END)].map((match) => match.index + match[0].length)
  let [shown, from, next] = ['', 0, 0]
  for (const { index } of begins) {
    if (index < from) continue
    while (next < ends.length && (ends[next] as number) <= index) next++
    const end = ends[next]
    if (end === undefined || end - index > LONGEST_KEY) continue
    shown += text.slice(from, index) + REPLACEMENT
    from = end
  }
  return shown + text.slice(from)
}
