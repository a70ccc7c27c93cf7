/** A promise that others settle, as `Promise.withResolvers` makes them, which Node.js has from version 22 on. */
export interface Deferred<T> {
  promise: Promise<T>
  resolve: (value: T) => void
  reject: (error: unknown) => void
}

export function deferred<T = void>(): Deferred<T> {
  const made = {} as Deferred<T>
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }))
  return made
}
