/** Compiled, never run: the implementation is what the hand-written types promise. */
import type * as promisedClient from '../../client'
import type * as promisedContainer from '../../container'
import type * as promised from '../../index'
import * as implementedClient from '../../lib/client/index'
import * as implementedContainer from '../../lib/container/index'
import * as implemented from '../../lib/index'
import * as implementedServer from '../../lib/server/index'
import type * as promisedServer from '../../server'

export const entry: typeof promised = implemented
export const container: typeof promisedContainer = implementedContainer
export const client: typeof promisedClient = implementedClient
export const server: typeof promisedServer = implementedServer
