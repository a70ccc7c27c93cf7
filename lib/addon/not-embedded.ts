/**
 * Stands for `embedded.ts` wherever a runtime or a bundler is not Bun's: package.json maps `#embedded` to one of them.
 *
 * Other bundlers follow the `require` of the addon there, and fail, since they have no loader for such a file.
 */
import type { loadEmbedded as Load } from './embedded.js'

export const loadEmbedded: typeof Load = () => undefined
