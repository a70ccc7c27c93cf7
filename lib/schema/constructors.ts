/**
 * Builds kinds from their parts, so that the reader, the JSON form and the bounds cannot disagree.
 */
import { invalidOption } from '../base/errors.js'
import { urlOf } from '../base/realm.js'
import type { Kind, OptionInput, OptionTable, OptionValues } from './kind.js'
import { type RefusalTraits, readEntries, readGroup, refusal } from './read.js'

/** How a kind of text differs from others. */
interface TextTraits extends RefusalTraits {
  /** Default: the rule without 'must be'. */
  bounds?: string
}

/** Values that pass a test and exist only in one process. */
export function local<T>(
  accepts: (value: unknown) => boolean,
  rule: string,
  bounds = boundsOf(rule),
): Kind<T> {
  return {
    read(value, name) {
      if (accepts(value)) return value as T
      throw refusal(name, rule, value)
    },
    bounds,
  }
}

/** Text that passes a test. */
export function text(
  accepts: (text: string) => boolean,
  rule: string,
  traits: TextTraits = {},
): Kind<string> {
  const { bounds = boundsOf(rule), ...shown } = traits
  return {
    read(value, name) {
      if (typeof value === 'string' && accepts(value)) return value
      throw refusal(name, rule, value, shown)
    },
    json: { schema: { type: 'string' } },
    bounds,
  }
}

/** Text of a form, which the OpenAPI document has. */
export function pattern(form: RegExp, rule: string, traits?: TextTraits): Kind<string> {
  const json = { schema: { type: 'string', pattern: form.source } } as const
  return { ...text((value) => form.test(value), rule, traits), json }
}

/** A kind of text that may also be given as a URL. */
export function orUrl(
  { read, json, bounds }: Kind<string>,
  textOf: (url: URL, name: string) => string,
): Kind<string | URL, string> {
  return {
    read(value, name) {
      const url = urlOf(value)
      return read(url === undefined ? value : textOf(url, name), name)
    },
    json,
    bounds,
  }
}

/** One of a few words. */
export function oneOf<const T extends string>(
  words: readonly T[],
  rule = `must be ${quoted(words).replace(/, (?=[^,]*$)/, ' or ')}`,
): Kind<T> {
  return {
    read(value, name) {
      const word = words.find((known) => known === value)
      if (word !== undefined) return word
      throw refusal(name, rule, value)
    },
    json: { schema: { type: 'string', enum: words } },
    bounds: words.join(' or '),
  }
}

/** Words as messages list them. */
export function quoted(words: readonly string[]): string {
  return words.map((word) => `'${word}'`).join(', ')
}

/** An object with options of its own, of which `required` must be given. `isSecret`: messages do not show what was given. */
export function object<T extends OptionTable, R extends keyof T & string = never>(
  table: T,
  required: readonly R[] = [],
  bounds = 'an object',
  { isSecret = false } = {},
): Kind<OptionInput<T, NoInfer<R>>, OptionValues<T> & Required<Pick<OptionValues<T>, NoInfer<R>>>> {
  return {
    read(value, name) {
      const values = readGroup(table, value, name, isSecret)
      const missing = required.find((key) => values[key] === undefined)
      if (missing === undefined) return values as OptionValues<T> & Required<Pick<OptionValues<T>, R>>
      const rule =
        required.length === 1 ? `.${missing} is required` : ` must have both ${required.join(' and ')}`
      throw invalidOption(name + rule)
    },
    json: { schema: { options: table, required, isOpen: false } },
    bounds,
  }
}

/**
 * A list of at most `most` items. `excess` is the rule that a longer list breaks, if it is another one. `isSecret`: messages do
 * not show what was given.
 */
export function list<In, T>(
  item: Kind<In, T>,
  most: number,
  {
    rule,
    bounds,
    excess,
    isSecret = false,
  }: { rule: string; bounds: string; excess?: string; isSecret?: boolean },
): Kind<In[], T[]> {
  return {
    read(value, name) {
      if (!Array.isArray(value)) throw refusal(name, rule, value, { isSecret })
      if (value.length > most)
        throw excess === undefined
          ? refusal(name, rule, value, { isSecret })
          : invalidOption(`${name} ${excess}`)
      return value.map((one, index) => item.read(one, `${name}[${index}]`))
    },
    ...(item.json !== undefined && { json: { schema: { items: { schema: item.json.schema } } } }),
    bounds,
  }
}

/** An object with at most `most` values by names. `check` checks a name, and says what messages call its value. */
export function byName<In, Out>(
  kind: Kind<In, Out>,
  most: number,
  {
    what,
    rule,
    bounds,
    isSecret = false,
  }: { what: string; rule: string; bounds: string; isSecret?: boolean },
  check: (given: string, name: string) => { key: string; owner: string },
): Kind<Record<string, In>, Record<string, Out>> {
  return {
    read(given, name) {
      const entries = readEntries(given, name, { rule, isSecret })
      if (entries.length > most) throw invalidOption(`${name} must have at most ${most} ${what}`)
      const checked: Record<string, Out> = Object.create(null)
      for (const [one, value] of entries) {
        if (value === undefined) continue
        const { key, owner } = check(one, name)
        // Only hosts can be written in two ways.
        if (key in checked) throw invalidOption(`${name} names the host ${key} twice: name it once`)
        checked[key] = kind.read(value, owner)
      }
      return checked
    },
    ...(kind.json && { json: { schema: { values: { ...kind, json: { schema: kind.json.schema } } } } }),
    bounds,
  }
}

/** The first kind for values that pass the test, and the second kind for all others. */
export function either<FirstIn, First, SecondIn, Second>(
  first: Kind<FirstIn, First>,
  isFirst: (value: unknown) => boolean,
  second: Kind<SecondIn, Second>,
  bounds: string,
): Kind<FirstIn | SecondIn, First | Second> {
  const anyOf = [first, second].flatMap(({ json }) => json ?? [])
  return {
    read: (value, name) => (isFirst(value) ? first : second).read(value, name),
    ...(anyOf.length === 2 && { json: { schema: { anyOf } } }),
    bounds,
  }
}

/** A kind whose checked value becomes another one. `map` may refuse it. */
export function mapped<In, A, B>(
  { read, json, bounds }: Kind<In, A>,
  map: (value: A, name: string) => B,
): Kind<In, B> {
  return {
    read: (value, name) => map(read(value, name), name),
    ...(json !== undefined && { json: { schema: json.schema } }),
    bounds,
  }
}

function boundsOf(rule: string): string {
  return rule.replace(/^must be /, '')
}
