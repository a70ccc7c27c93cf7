/** What both ends of HTTP share, for companion packages. endpoints.ts has the requests. */

export * from './codec.js'
export * from './endpoint.js'
export * from './headers.js'
export * from './keep.js'
export * from './simple-calls.js'
