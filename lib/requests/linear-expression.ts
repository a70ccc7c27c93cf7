/**
 * Translates a regular expression of JavaScript for the engine's matcher, whose time is proportional to the line.
 *
 * JavaScript's own engine may need years for a line of forty characters, and a sandboxed program chooses the lines. So it
 * never runs an expression on a log. The matcher has the syntax of the Rust crate regex-lite. Its meaning differs in
 * details, so each character and each class is written as numbers, and case is folded here.
 */
import { invalidOption, type OptionError } from '../base/errors.js'

/** An expression for the matcher. */
export interface LinearExpression {
  text: string
  /** The name of each group, from the first one on. */
  names: readonly (string | undefined)[]
}

/** The first and the last character, in order and apart from each other. */
type Ranges = readonly (readonly [first: number, last: number])[]

interface Flags {
  i: boolean
  m: boolean
  s: boolean
}

const LAST = 0x10ffff
const DASH = 0x2d
const LINE_ENDS: Ranges = [
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
]
const DIGITS: Ranges = [[0x30, 0x39]]
const WORD: Ranges = [
  [0x30, 0x39],
  [0x41, 0x5a],
  [0x5f, 0x5f],
  [0x61, 0x7a],
]
const SPACE: Ranges = [
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
]
const CONTROLS: Record<string, number> = { t: 0x09, n: 0x0a, v: 0x0b, f: 0x0c, r: 0x0d }
/** Maximum characters beyond ASCII in a class whose case is folded. */
const MOST_FOLDED = 2048

/** Throws OptionError for what only JavaScript's engine can do. `name`: the option, for messages. */
export function linearExpression(given: RegExp, name: string): LinearExpression {
  return new Translation(given, name).whole()
}

class Translation {
  readonly #name: string
  /** Characters, also where JavaScript sees halves of them. */
  readonly #source: string[]
  readonly #isUnicode: boolean
  readonly #hasSets: boolean
  readonly #groups: number
  readonly #names: (string | undefined)[] = []
  #flags: Flags
  #at = 0

  constructor({ source, flags }: RegExp, name: string) {
    this.#name = name
    this.#source = Array.from(source)
    this.#hasSets = flags.includes('v')
    this.#isUnicode = this.#hasSets || flags.includes('u')
    this.#flags = { i: flags.includes('i'), m: flags.includes('m'), s: flags.includes('s') }
    this.#groups = countGroups(this.#source)
  }

  whole(): LinearExpression {
    return { text: this.#alternatives(), names: this.#names }
  }

  /** Up to the end of the group or the expression. */
  #alternatives(): string {
    let text = ''
    while (this.#at < this.#source.length && !this.#sees(')'))
      text += this.#takes('|') ? '|' : this.#term() + this.#quantifier()
    return text
  }

  #term(): string {
    if (this.#takes('^')) return this.#flags.m ? '(?Rm:^)' : '^'
    if (this.#takes('$')) return this.#flags.m ? '(?Rm:$)' : '$'
    if (this.#takes('(')) return this.#group()
    if (this.#takes('[')) return written(this.#class())
    if (this.#takes('.')) return written(this.#flags.s ? [[0, LAST]] : without(LINE_ENDS))
    if (!this.#takes('\\')) return written(this.#folded([one(this.#next())]))
    for (const boundary of ['b', 'B']) if (this.#takes(boundary)) return `\\${boundary}`
    if (this.#isReference()) throw this.#refusal('backreferences')
    return written(this.#folded(this.#escape(false)))
  }

  #group(): string {
    const flags = this.#flags
    let begin = '(?:'
    const modifiers = /^\?([ims]*)(?:-([ims]*))?:/.exec(this.#rest(10))
    if (modifiers !== null) {
      const [whole, on = '', off = ''] = modifiers
      this.#at += whole.length
      const set = (flag: keyof Flags) => (flags[flag] || on.includes(flag)) && !off.includes(flag)
      this.#flags = { i: set('i'), m: set('m'), s: set('s') }
    } else if (/^\?<?[=!]/.test(this.#rest(3))) {
      throw this.#refusal('look-around')
    } else {
      begin = '('
      this.#names.push(this.#groupName())
    }
    const text = `${begin}${this.#alternatives()})`
    this.#takes(')')
    this.#flags = flags
    return text
  }

  #groupName(): string | undefined {
    if (!this.#takes('?')) return undefined
    const end = this.#source.indexOf('>', this.#at)
    const name = this.#source.slice(this.#at + 1, end).join('')
    this.#at = end + 1
    return name.replace(/\\u(?:\{([0-9a-f]+)\}|([0-9a-f]{4}))/gi, (_, long, short) =>
      String.fromCodePoint(Number.parseInt(long ?? short, 16)),
    )
  }

  #quantifier(): string {
    const found = /^(?:[*+?]|\{\d+(?:,\d*)?\})\??/.exec(this.#rest(40))
    if (found === null) return ''
    this.#at += found[0].length
    return found[0]
  }

  #isReference(): boolean {
    if (this.#sees('k')) return this.#isUnicode || this.#hasNames()
    const number = /^[1-9]\d*/.exec(this.#rest(10))
    return number !== null && (this.#isUnicode || Number(number[0]) <= this.#groups)
  }

  #hasNames(): boolean {
    return /\(\?<[^=!]/.test(this.#source.join(''))
  }

  /** The characters that an escape stands for. */
  #escape(isInClass: boolean): Ranges {
    const char = this.#next()
    const class_ = { d: DIGITS, w: WORD, s: SPACE }[char.toLowerCase()]
    if (class_ !== undefined) return char === char.toLowerCase() ? class_ : without(class_)
    if (this.#isUnicode && (char === 'p' || char === 'P')) throw this.#refusal('properties of Unicode (\\p)')
    if (this.#hasSets && char === 'q') throw this.#refusal('strings in classes (\\q)')
    return [one(this.#escaped(char, isInClass))]
  }

  #escaped(char: string, isInClass: boolean): number {
    const control = CONTROLS[char]
    if (control !== undefined) return control
    if (char === 'b' && isInClass) return 0x08
    if (char === 'c') return this.#control(isInClass)
    if (char === 'x') return this.#hex(/^[0-9a-f]{2}/i) ?? code(char)
    if (char === 'u') return this.#unicode() ?? code(char)
    if (/[0-7]/.test(char)) return this.#octal(char)
    return code(char)
  }

  #control(isInClass: boolean): number {
    const letter = (isInClass && !this.#isUnicode ? /^\w/ : /^[a-z]/i).exec(this.#rest(1))
    if (letter !== null) return code(this.#next()) % 32
    // The backslash stands for itself.
    this.#at -= 1
    return 0x5c
  }

  #unicode(): number | undefined {
    if (this.#isUnicode && this.#sees('{')) {
      const end = this.#source.indexOf('}', this.#at)
      const digits = this.#source.slice(this.#at + 1, end).join('')
      this.#at = end + 1
      return Number.parseInt(digits, 16)
    }
    const unit = this.#hex(/^[0-9a-f]{4}/i)
    const isHigh = unit !== undefined && unit >= 0xd800 && unit <= 0xdbff
    const low = isHigh ? /^\\u(d[c-f][0-9a-f]{2})/i.exec(this.#rest(6)) : null
    if (low === null || unit === undefined) return unit
    this.#at += low[0].length
    return 0x10000 + (unit - 0xd800) * 0x400 + (Number.parseInt(low[1] ?? '', 16) - 0xdc00)
  }

  #octal(first: string): number {
    const [digits] = /^(?:[0-3][0-7]{0,2}|[4-7][0-7]?)/.exec(first + this.#rest(2)) ?? [first]
    this.#at += digits.length - 1
    return Number.parseInt(digits, 8)
  }

  #hex(form: RegExp): number | undefined {
    const digits = form.exec(this.#rest(4))?.[0]
    if (digits === undefined) return undefined
    this.#at += digits.length
    return Number.parseInt(digits, 16)
  }

  #class(): Ranges {
    const isNegated = this.#takes('^')
    const found: (readonly [number, number])[] = []
    while (!this.#takes(']')) {
      const first = this.#classItem()
      const isRange = this.#sees('-') && !this.#sees(']', 1)
      if (!isRange) {
        found.push(...first)
        continue
      }
      this.#at += 1
      const last = this.#classItem()
      // With a class on one side, the dash stands for itself.
      if (isOne(first) && isOne(last)) found.push([first[0][0], last[0][0]])
      else found.push(...first, [DASH, DASH], ...last)
    }
    const folded = this.#folded(found)
    return isNegated ? without(folded) : folded
  }

  #classItem(): Ranges {
    if (this.#takes('\\')) return this.#escape(true)
    if (this.#hasSets && (this.#sees('[') || /^(?:--|&&)/.test(this.#rest(2))))
      throw this.#refusal('sets in classes')
    return [one(this.#next())]
  }

  /** With the other case of each letter, if case is ignored. */
  #folded(ranges: Ranges): Ranges {
    if (!this.#flags.i) return ranges
    let left = MOST_FOLDED
    const folded = [...ranges]
    for (const [first, last] of ranges) {
      const lower = [Math.max(first, 0x61), Math.min(last, 0x7a)] as const
      const upper = [Math.max(first, 0x41), Math.min(last, 0x5a)] as const
      if (lower[0] <= lower[1]) folded.push([lower[0] - 32, lower[1] - 32])
      if (upper[0] <= upper[1]) folded.push([upper[0] + 32, upper[1] + 32])
      const begin = Math.max(first, 0x80)
      left -= Math.max(0, last - begin + 1)
      if (left >= 0)
        for (let point = begin; point <= last; point++) folded.push(...otherCases(point).map(one))
    }
    return folded
  }

  #refusal(what: string): OptionError {
    return invalidOption(
      `${this.#name} must be a RegExp without ${what}: no search in output may take more than linear time`,
    )
  }

  #rest(most: number): string {
    return this.#source.slice(this.#at, this.#at + most).join('')
  }

  #sees(char: string, ahead = 0): boolean {
    return this.#source[this.#at + ahead] === char
  }

  #takes(char: string): boolean {
    const isThere = this.#sees(char)
    if (isThere) this.#at += 1
    return isThere
  }

  /** The expression is valid, so something follows. */
  #next(): string {
    return this.#source[this.#at++] ?? ''
  }
}

function countGroups(source: readonly string[]): number {
  let [count, isInClass] = [0, false]
  for (let at = 0; at < source.length; at++) {
    const char = source[at]
    if (char === '\\') at += 1
    else if (char === '[') isInClass = true
    else if (char === ']') isInClass = false
    else if (char === '(' && !isInClass) {
      const begin = source.slice(at + 1, at + 4).join('')
      if (!begin.startsWith('?') || /^\?<[^=!]/.test(begin)) count += 1
    }
  }
  return count
}

function code(char: string): number {
  return char.codePointAt(0) ?? 0
}

function one(char: string | number): readonly [number, number] {
  const point = typeof char === 'string' ? code(char) : char
  return [point, point]
}

function isOne(ranges: Ranges): ranges is readonly [readonly [number, number]] {
  const [range] = ranges
  return ranges.length === 1 && range !== undefined && range[0] === range[1]
}

/** The other cases of a character beyond ASCII, as far as they are characters beyond ASCII. */
function otherCases(point: number): number[] {
  const text = String.fromCodePoint(point)
  const cases = [text.toLowerCase(), text.toUpperCase()].filter((other) => other !== text)
  const points = cases.map((other) => Array.from(other)).filter(({ length }) => length === 1)
  return points.map(([char = '']) => code(char)).filter((other) => other >= 0x80)
}

/** All other characters. */
function without(ranges: Ranges): Ranges {
  const others: [number, number][] = []
  let next = 0
  for (const [first, last] of ranges.toSorted(([one], [other]) => one - other)) {
    if (first > next) others.push([next, first - 1])
    next = Math.max(next, last + 1)
  }
  return next <= LAST ? [...others, [next, LAST]] : others
}

/** A class of the matcher. Halves of characters are in no line. */
function written(ranges: Ranges): string {
  const whole = ranges.flatMap(([first, last]) => [
    [first, Math.min(last, 0xd7ff)] as const,
    [Math.max(first, 0xe000), last] as const,
  ])
  const kept = whole.filter(([first, last]) => first <= last)
  const hex = (point: number) => `\\x{${point.toString(16)}}`
  const [only] = kept
  if (only === undefined) return `[^${hex(0)}-${hex(LAST)}]`
  if (kept.length === 1 && only[0] === only[1]) return hex(only[0])
  return `[${kept.map(([first, last]) => `${hex(first)}-${hex(last)}`).join('')}]`
}
