/** Connections that break without a sign, as when a cable is pulled. */
import { it } from 'vitest'
import { until } from '../../../__test__/helpers/until.js'
import { begun, running } from './ended.js'
import { Place, withSandboxd } from './place.js'
import { relayTo } from './relay.js'

/** The server asks for a sign of life every 20 s, and waits for 10 s. */
const NOTICED_MS = 45_000

it('kills the program of a client that is silent for half a minute', { timeout: 2 * NOTICED_MS }, () =>
  withSandboxd(async (place) => {
    const relay = await relayTo(place.sandboxd.grpcPort)
    const other = new Place(place.serving, place.workplace, relay.port)
    try {
      const started = other.start({ command: ['sh', '-c', 'setsid sleep 667 & sleep 667'] })
      await started.id()
      await begun(place, /sleep 667/, 2)
      relay.silence()
      await until(
        () => (running(place, /sleep 667/).length === 0 ? true : undefined),
        () => 'the program goes on',
        NOTICED_MS,
      )
    } finally {
      other.close()
      await relay.close()
    }
  }),
)
