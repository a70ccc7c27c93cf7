/** Memory in use, without garbage. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

/** Declares `collect` in the program of a host. */
export const collecting = `
  const collect = () => {
    if (typeof Bun !== 'undefined') return Bun.gc(true)
    require('v8').setFlagsFromString('--expose-gc')
    require('vm').runInNewContext('gc')()
  }
`

/** Collects the garbage of this process. */
export function collect(): void {
  const { Bun } = globalThis as { Bun?: { gc(atOnce: boolean): void } }
  if (Bun === undefined) {
    setFlagsFromString('--expose-gc')
    runInNewContext('gc')()
  } else Bun.gc(true)
}
