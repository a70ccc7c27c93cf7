/**
 * Objects without a prototype. A dependency may have added properties to Object.prototype, by mistake or by an attack: they
 * must not become options that a caller has not given.
 */

/** A copy. Spreading and rest parameters make objects with a prototype. */
export function ownOnly<T extends object>(values: T): T {
  return Object.assign(Object.create(null), values)
}

/** Removes the prototypes of all objects in a value made of JSON, and returns it. */
export function withoutPrototypes<T>(json: T): T {
  const open: unknown[] = [json]
  while (open.length > 0) {
    const value = open.pop()
    if (typeof value !== 'object' || value === null) continue
    if (!Array.isArray(value)) Object.setPrototypeOf(value, null)
    // A loop, since a stack would overflow on values that are nested deeply.
    for (const item of Object.values(value)) if (typeof item === 'object') open.push(item)
  }
  return json
}
