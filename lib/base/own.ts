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
  const keep = (item: unknown) => {
    if (typeof item === 'object' && item !== null) open.push(item)
  }
  // A loop, since a stack would overflow on values that are nested deeply.
  while (open.length > 0) {
    const value = open.pop()
    if (Array.isArray(value)) value.forEach(keep)
    else if (typeof value === 'object' && value !== null) {
      const object = Object.setPrototypeOf(value, null)
      // Object.values would first copy them, which takes longer than to parse an object with many properties.
      for (const name in object) keep(object[name])
    }
  }
  return json
}
