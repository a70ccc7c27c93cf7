/**
 * Recognizes values of other realms, like those of node:vm, of jsdom and of some test runners, where `instanceof` is false.
 */

const typeOfArray = getter(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag)
const sourceOf = getter(RegExp.prototype, 'source')

/** The bytes of a Uint8Array, which may be a Buffer, as an array of this realm; undefined for anything else. */
export function bytesOf(value: unknown): Uint8Array | undefined {
  if (value instanceof Uint8Array) return value
  // The getter reads what the object is, and calls none of its own code.
  if (typeOfArray(value) !== 'Uint8Array') return undefined
  const { buffer, byteOffset, length } = value as Uint8Array
  return new Uint8Array(buffer, byteOffset, length)
}

/** A RegExp of this realm; undefined for anything else. */
export function regExpOf(value: unknown): RegExp | undefined {
  if (value instanceof RegExp) return value
  try {
    sourceOf(value)
  } catch {
    return undefined
  }
  const { source, flags } = value as RegExp
  return new RegExp(source, flags)
}

/** A URL of this realm; undefined for anything else. */
export function urlOf(value: unknown): URL | undefined {
  if (value instanceof URL) return value
  // Other implementations have it, too, and nothing else tells them apart.
  if (Object.prototype.toString.call(value) !== '[object URL]') return undefined
  const { href } = value as URL
  return typeof href === 'string' && URL.canParse(href) ? new URL(href) : undefined
}

function getter(prototype: object, name: string | symbol): (value: unknown) => unknown {
  const get = Object.getOwnPropertyDescriptor(prototype, name)?.get
  return (value) => get?.call(value)
}
