/** Compiled, never run: a table has exactly the options of its interface, each with a kind of its type. */
import { table } from '../../lib/schema/kind.js'
import { milliseconds } from '../../lib/schema/numbers.js'
import { directory, directoryText } from '../../lib/schema/paths.js'
import { callback, flag } from '../../lib/schema/values.js'

interface Options {
  cwd?: string
  timeout?: number
  onExit?: (code: number) => void
}

const right = { cwd: directoryText, timeout: { ...milliseconds, default: 0 }, onExit: callback }

export const options = table<Options>()(right)

// @ts-expect-error: `onExit` is missing
table<Options>()({ cwd: directoryText, timeout: milliseconds })

// @ts-expect-error: `retries` is unknown
table<Options>()({ ...right, retries: milliseconds })

// @ts-expect-error: `timeout` is a number
table<Options>()({ ...right, timeout: flag })

// @ts-expect-error: `cwd` has no URL in the interface
table<Options>()({ ...right, cwd: directory })

// @ts-expect-error: the default of `timeout` is a number
table<Options>()({ ...right, timeout: { ...milliseconds, default: 'none' } })
