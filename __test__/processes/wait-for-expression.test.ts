import vm from 'node:vm'
import type { LogMatch } from 'nacre'
import { describe, expect, it } from 'vitest'
import { OptionError } from '../../lib/base/errors.js'
import { linearExpression } from '../../lib/requests/linear-expression.js'
import { type Random, withRandom } from '../helpers/random.js'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { rejectionOf } from '../helpers/thrown.js'

/** What `exec` of JavaScript gives, without its identity. */
function plain({ line, match }: LogMatch) {
  const indices = match?.indices && { all: [...match.indices], groups: { ...match.indices.groups } }
  return { line, all: match && [...match], index: match?.index, groups: { ...match?.groups }, indices }
}

function expected(pattern: RegExp, line: string) {
  const match = new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, '')).exec(line)
  return match && plain({ line, match })
}

/** An expression in the old syntax, which compilers warn of. */
const old = (source: string) => new RegExp(source)

/** Expressions that match the line beside them. */
const CASES: [pattern: RegExp, line: string][] = [
  [/ready in (\d+) ms/, 'VITE ready in 250 ms'],
  [/(?<word>\w+)-(?<rest>x)?/, 'é one-two'],
  [/port (?<port>\d{4})$/g, 'on port 8080'],
  [/(?:a|(b))c(d)?/d, 'xxabc'],
  [/(?<one>a)|(?<two>b)/d, 'b'],
  [old('^[^]{3}$'), 'a\rb'],
  [/^.$/u, '\u{1f41a}'],
  [/[\u{1f400}-\u{1f4ff}]/u, 'x\u{1f41a}'],
  [/\ud83d\udc1a!/, '\u{1f41a}!'],
  [/\u{1f41a}/u, '\u{1f41a}'],
  [old('\\x41\\u0042\\103\\cJ?\\0?\\t'), 'ABC\t'],
  [/[\b]?\/-_[\]\-a-c]/, '/-_]'],
  [/a{,2}b{c}]}{/, 'a{,2}b{c}]}{'],
  [/a{2}b{1,}c{0,2}?d/, 'aabbd'],
  [/\s\S\w\W\d\D/, '\u2003xa-1 '],
  [/\s/, 'a\u00a0b'],
  [/[^\s]+$/, 'a \u3000bc'],
  [/[\w-]+:[\d-x]/, 'a-b:x'],
  [/STRASSE|ÄRGER/i, 'ärger'],
  [/[à-ý]+/i, 'ÄÖÜ'],
  [/[^a]x/i, 'Axbx'],
  [/\bend\b/, 'the end.'],
  [/^b/m, 'a\rb'],
  [/a.b/s, 'a\rb'],
  [/(|a)()b/, 'ab'],
  [old('[]|x'), 'x'],
  [old('\\k<a>\\9'), 'k<a>9'],
  [old('\\1?z'), 'z'],
  [/(a+)+$/, 'aaa'],
]

describe('waitForLog with a RegExp', () => {
  itInSandbox('gives the match that exec gives', async ({ sandbox }) => {
    for (const [pattern, line] of CASES) {
      const process = await sandbox.startProcess(['printf', '%s\\n', 'other', line])
      expect(plain(await process.waitForLog(pattern, { cursor: 6 })), String(pattern)).toEqual(
        expected(pattern, line),
      )
    }
  })

  itInSandbox('finds the line that exec finds first', async ({ sandbox }) =>
    withRandom(async (random) => {
      const lines = Array.from({ length: 200 }, () => text(random))
      const process = await sandbox.startProcess('cat', { input: `${lines.join('\n')}\n` })
      await process.waitForExit()
      for (let round = 0; round < 150; round++) {
        const pattern = expression(random)
        const line = lines.find((candidate) => pattern.test(candidate))
        if (line === undefined) {
          const error = await rejectionOf(process.waitForLog(pattern))
          expect(error, String(pattern)).toMatchObject({ code: 'PROCESS_EXITED_BEFORE_READY' })
        } else {
          expect(plain(await process.waitForLog(pattern)), String(pattern)).toEqual(expected(pattern, line))
        }
      }
    }),
  )

  itInSandbox('takes a RegExp of another realm', async ({ sandbox }) => {
    const process = await sandbox.startProcess('echo port 80')
    const { match } = await process.waitForLog(vm.runInNewContext('/PORT (?<port>\\d+)/i'))
    expect(match?.groups?.port).toBe('80')
  })

  itInSandbox('searches hostile lines while other work goes on', async ({ sandbox }) => {
    const process = await sandbox.startProcess(`printf '%064000d!\\n' 0 | tr 0 a; echo done`)
    for (const pattern of [/(a+)+$/, /^(a|a)*$/, /(a|aa)+$/, /^(([a-z])+.)+[A-Z]([a-z])+$/, /a*a*a*a*b/]) {
      const found = process.waitForLog(new RegExp(`${pattern.source}|done`))
      expect((await found).line).toBe('done')
    }
  })

  itInSandbox('is refused if its search may take more than linear time', async ({ sandbox }) => {
    const process = await sandbox.startProcess('echo aa')
    for (const [pattern, what] of [
      [/(a)\1/, 'backreferences'],
      [/(?<x>a)\k<x>/, 'backreferences'],
      [/a(?=a)/, 'look-around'],
      [/a(?!b)/, 'look-around'],
      [/(?<=a)a/, 'look-around'],
      [/(?<!b)a/, 'look-around'],
      [/\p{L}/u, 'properties of Unicode'],
    ] as const) {
      const error = await rejectionOf(process.waitForLog(pattern))
      expect(error, String(pattern)).toMatchObject({ name: 'OptionError', code: 'INVALID_OPTION' })
      expect(error.message).toContain(`pattern must be a RegExp without ${what}`)
      const service = sandbox.startService('echo aa', { healthCheck: { log: pattern } })
      expect((await rejectionOf(service)).message).toContain(
        `healthCheck.log must be a RegExp without ${what}`,
      )
    }
    for (const pattern of [new RegExp('a'.repeat(1001)), /(?:a{900}){900}/])
      expect(await rejectionOf(process.waitForLog(pattern))).toMatchObject({ code: 'INVALID_OPTION' })
  })
})

describe('linearExpression', () => {
  it('translates whatever is a RegExp, or refuses it', () =>
    withRandom((random) => {
      const parts = [
        'a',
        '(',
        ')',
        '[',
        ']',
        '\\',
        '{1}',
        '?',
        '*',
        '|',
        '^',
        '$',
        '.',
        '-',
        ':',
        '<',
        '=',
        'u',
        'k',
        '1',
        '&&',
      ]
      for (let round = 0; round < 20_000; round++) {
        const source = Array.from({ length: 1 + random.below(8) }, () => pick(random, parts)).join('')
        for (const flags of ['', 'u', 'v', 'im']) {
          const pattern = regExp(source, flags)
          if (pattern !== undefined) expect(translation(pattern), source).toBe(true)
        }
      }
    }))
})

function translation(pattern: RegExp): unknown {
  try {
    return linearExpression(pattern, 'x').text !== '' || pattern.source === '(?:)'
  } catch (error) {
    return error instanceof OptionError || error
  }
}

function pick<T>(random: Random, values: readonly T[]): T {
  return values[random.below(values.length)] as T
}

function regExp(source: string, flags: string): RegExp | undefined {
  try {
    return new RegExp(source, flags)
  } catch {
    return undefined
  }
}

function text(random: Random): string {
  return Array.from({ length: random.below(9) }, () =>
    pick(random, ['a', 'B', 'c', 'é', 'É', ' ', '-', '1', '_', '\u00a0', '\u{1f41a}', '\t']),
  ).join('')
}

/** Groups are not repeated: JavaScript forgets what they had in an earlier turn. */
function expression(random: Random): RegExp {
  const atoms = [
    'a',
    'b',
    'C',
    '.',
    '\\w',
    '\\W',
    '\\d',
    '\\s',
    '\\S',
    '[a-c]',
    '[^a-cé]',
    '[\\w-]',
    '\\b',
    'é',
    '-',
    '\u{1f41a}',
    '[é-ü]',
    '(?:a|B)',
  ]
  const piece = () => pick(random, atoms) + pick(random, ['', '', '', '', '*', '+?', '?', '{1,2}', '{2}'])
  const branch = (): string => Array.from({ length: 1 + random.below(3) }, piece).join('')
  const source = pick(random, [
    () => branch(),
    () => `^${branch()}$`,
    () => `(${branch()})${branch()}`,
    () => `${branch()}|(?<name>${branch()})`,
    () => `(${branch()}|(${branch()}))`,
  ])()
  return regExp(source, pick(random, ['u', 'iu'])) ?? expression(random)
}
