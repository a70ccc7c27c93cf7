/**
 * Objects without a prototype. A dependency may have added properties to Object.prototype, by mistake or by an attack: they
 * must not become options that a caller has not given.
 */

/** A copy. Spreading and rest parameters make objects with a prototype. */
export function ownOnly<T extends object>(values: T): T {
  return Object.assign(Object.create(null), values)
}

/** Whether it is the member of a union that has this property itself. */
export function owns<T extends object, K extends string>(
  value: T,
  name: K,
): value is Extract<T, Record<K, unknown>> {
  return Object.hasOwn(value, name)
}
