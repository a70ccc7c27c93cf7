/** Compiled, never run: the implementation is what the hand-written index.d.ts promises. */
import type * as promised from '../../index'
import * as implemented from '../../lib/index'

export const entry: typeof promised = implemented
