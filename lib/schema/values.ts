/**
 * Kinds of values that are no text and no numbers: flags, functions, and objects that are recognized by their shape.
 */
import { invalidOption } from '../base/errors.js'
import { regExpOf } from '../base/realm.js'
import type { Encoding, Logger } from '../base/types.js'
import { either, local, mapped, oneOf } from './constructors.js'
import type { Callback, Kind } from './kind.js'

/** For what is done where the call is made, so it is not sent. */
export const ownFlag = local<boolean>((value) => typeof value === 'boolean', 'must be true or false')

export const flag: Kind<boolean> = { ...ownFlag, json: { schema: { type: 'boolean' } } }

/** Also true, which stands for the usual value, and false, which counts as not given. */
export function switchable<In, Out>(
  kind: Kind<In, Out>,
  usual: Out,
  bounds: string,
): Kind<boolean | In, Out | undefined> {
  const isOn = mapped(flag, (value) => (value ? usual : undefined))
  return either(isOn, (value) => typeof value === 'boolean', kind, bounds)
}

export const callback = local<Callback>((value) => typeof value === 'function', 'must be a function')

export const encoding: Kind<Encoding> = oneOf(['utf8', 'buffer'])

/** An option that containers pass on from their own callers: accepted with any value, and ignored. */
export const ignored: Kind<boolean, undefined> = { read: () => undefined, bounds: 'anything' }

/** Whether it has a method of this name, which may be inherited, as in console and classes. */
export function hasMethod(value: unknown, method: string): boolean {
  return typeof (value as Record<string, unknown> | null | undefined)?.[method] === 'function'
}

/** An object with all these methods. `ruleFor` says which one is missing. */
export function withMethods<T>(
  methods: readonly string[],
  ruleFor: (missing: string) => string,
  bounds: string,
): Kind<T> {
  return {
    read(value, name) {
      const missing = methods.find((method) => typeof value !== 'object' || !hasMethod(value, method))
      if (missing === undefined) return value as T
      throw invalidOption(`${name} ${ruleFor(missing)}`)
    },
    bounds,
  }
}

export const logger: Kind<Logger> = withMethods(
  ['debug', 'info', 'warn', 'error'],
  (missing) => `must have the methods debug, info, warn and error; ${missing} is missing`,
  'an object with debug, info, warn and error',
)

/** What replies and recordings must not show. */
export const redact: Kind<readonly (string | RegExp)[]> = {
  read(value, name) {
    const items: unknown[] = Array.isArray(value) ? [...value] : [undefined]
    return items.map((item) => {
      const secret = typeof item === 'string' && item.length >= 4 ? item : regExpOf(item)
      if (secret !== undefined) return secret
      // The message does not show the value.
      throw invalidOption(`${name} must be a list of texts of 4 or more characters and of RegExp`)
    })
  },
  bounds: 'a list of texts of 4 or more characters and of RegExp',
}
