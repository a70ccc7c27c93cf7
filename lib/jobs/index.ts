/** What durable jobs of every backend share, for companion packages. */

export * from './ids.js'
export * from './output.js'
export * from './prune.js'
export * from './read.js'
export * from './record.js'
export * from './status.js'
