/** Compiled, never run: the implementation is what the hand-written types promise. */
import type * as promisedClient from '../../client.js'
import type * as promisedContainer from '../../container.js'
import type * as promisedEngine from '../../engine.js'
import type * as promised from '../../index.js'
import * as implementedClient from '../../lib/client.js'
import * as implementedContainer from '../../lib/container/index.js'
import * as implementedEngine from '../../lib/engine/index.js'
import * as implemented from '../../lib/index.js'
import * as implementedOtel from '../../lib/otel/index.js'
import type * as promisedOtel from '../../otel.js'
import type * as promisedFleet from '../../packages/fleet/dist/public.js'
import * as implementedFleet from '../../packages/fleet/lib/index.js'
import type * as promisedQueue from '../../packages/queue/dist/public.js'
import * as implementedQueue from '../../packages/queue/lib/index.js'
import type * as promisedServer from '../../packages/server/dist/public.js'
import * as implementedServer from '../../packages/server/lib/index.js'

export const entry: typeof promised = implemented
export const container: typeof promisedContainer = implementedContainer
export const engine: typeof promisedEngine = implementedEngine
export const client: typeof promisedClient = implementedClient
export const fleet: typeof promisedFleet = implementedFleet
export const otel: typeof promisedOtel = implementedOtel
export const queue: typeof promisedQueue = implementedQueue
export const server: typeof promisedServer = implementedServer
