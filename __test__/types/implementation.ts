/** Compiled, never run: the implementation is what the hand-written index.d.ts promises. */
import type * as promisedContainer from '../../container'
import type * as promised from '../../index'
import * as implementedContainer from '../../lib/container/index'
import * as implemented from '../../lib/index'

export const entry: typeof promised = implemented
export const container: typeof promisedContainer = implementedContainer
