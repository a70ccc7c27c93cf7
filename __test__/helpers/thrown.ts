/** The error that a function throws, or a promise rejects with; fails the test if there is none. */
import { OptionError } from '../../lib/base/errors.js'

export function thrownBy(action: () => unknown): unknown {
  try {
    action()
  } catch (error) {
    return error
  }
  throw new Error('nothing was thrown')
}

export async function rejectionOf(promise: PromiseLike<unknown>): Promise<Error> {
  try {
    await promise
  } catch (error) {
    if (error instanceof Error) return error
    throw new Error(`rejected with something that is not an Error: ${String(error)}`)
  }
  throw new Error('nothing was rejected')
}

/** The errors of calls that are being made. None is unhandled while another one is awaited. */
export function rejectionsOf(promises: PromiseLike<unknown>[]): Promise<Error[]> {
  return Promise.all(promises.map(rejectionOf))
}

/** The OptionError that a function throws. */
export function refusalOf(action: () => unknown): OptionError {
  const error = thrownBy(action)
  if (error instanceof OptionError) return error
  throw new Error('what was thrown is not an OptionError', { cause: error })
}
