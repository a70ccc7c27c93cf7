/**
 * nacre runs shell commands in persistent bash sessions, on Linux, from Node.js >= 20.19 and Bun >= 1.3.
 *
 * All times are in milliseconds and all sizes in bytes. An option that is `undefined` counts as omitted. An unknown
 * option name or a value out of range is an {@link OptionError} (a TypeError) before anything runs. Methods that return
 * a promise reject with it; constructors and methods that return a stream throw it.
 *
 * @packageDocumentation
 */

export * from './checkpoint.js'
export * from './command.js'
export * from './errors.js'
export * from './exec.js'
export * from './files.js'
export * from './isolation.js'
export * from './jobs.js'
export * from './logs.js'
export * from './process.js'
export * from './sandbox.js'
export * from './service.js'
export * from './session.js'
export * from './waits.js'
export * from './workspace.js'
