/** Defines a property that is computed at its first read and is a plain value from then on. */
export function defineLazily<T extends object, K extends keyof T>(
  target: T,
  name: K,
  compute: () => T[K],
): void {
  Object.defineProperty(target, name, {
    enumerable: true,
    configurable: true,
    get() {
      const value = compute()
      Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true })
      return value
    },
  })
}
