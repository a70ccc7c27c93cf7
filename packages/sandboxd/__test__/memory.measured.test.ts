import { it } from 'vitest'
import { startHost } from '../../../__test__/helpers/host.js'
import { collecting } from '../../../__test__/helpers/memory.js'
import * as proc from '../../../__test__/helpers/proc.js'
import { temporary } from '../../../__test__/helpers/temporary.js'
import { until } from '../../../__test__/helpers/until.js'
import { Place } from './place.js'

/** 64 MB from each program. */
const LINES = 4_000_000
const CLIENTS = 10
const MOST_MB_EACH = 6

it('sandboxd holds little memory for clients that do not read', {
  timeout: 120_000,
}, async () => {
  const root = temporary('nacre-memory-')
  const host = startHost(`
    ${collecting}
    const { serve } = require('@nacre/server')
    const main = async () => {
      const sandboxd = { grpcPort: 0, restPort: 0, root: ${JSON.stringify(root)} }
      const serving = await serve(new Sandbox(), { port: 0, sandboxd })
      collect()
      setInterval(collect, 500)
      print(JSON.stringify(serving.sandboxd) + '.\\n')
    }
    main()
  `)
  const places: Place[] = []
  try {
    await host.printed('}.\n')
    const sandboxd = JSON.parse(/\{.*\}/.exec(host.output())?.[0] ?? '')
    const open = () => {
      const place = new Place({ sandboxd } as never, {} as never)
      places.push(place)
      return place
    }
    await open().execute({ command: ['seq', '100000'] })
    const before = proc.statusNumber('VmRSS', host.pid)
    const grown = () => (proc.statusNumber('VmRSS', host.pid) - before) / 1024
    const calls = Array.from({ length: CLIENTS }, () =>
      open().start({ command: ['seq', '-f', '%015.0f', `${LINES}`] }),
    )
    for (const call of calls) await call.id()
    // The programs print as far as they can; then nothing changes any more.
    let last = -1
    await until(
      () => {
        const now = proc.descendants(host.pid).reduce((sum, { pid }) => sum + proc.bytes('wchar', pid), 0)
        const isStill = now === last
        last = now
        return isStill || undefined
      },
      () => 'the programs go on',
      20_000,
    )
    await until(
      () => grown() < CLIENTS * MOST_MB_EACH || undefined,
      () => `${CLIENTS} clients that do not read hold ${grown()} MB`,
    )
    console.log(`${CLIENTS} clients that do not read hold ${grown().toFixed(1)} MB`)
    for (const call of calls) call.stream.cancel()
  } finally {
    for (const place of places) place.close()
    host.child.kill('SIGKILL')
  }
})
