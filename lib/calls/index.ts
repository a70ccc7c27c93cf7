/**
 * nacre runs shell commands in persistent bash sessions, on Linux, from Node.js >= 20.19 and Bun >= 1.3.
 *
 * All times are in milliseconds and all sizes in bytes. An option that is `undefined` counts as omitted. An unknown
 * option name or a value out of range is an {@link OptionError} (a TypeError) before anything runs. Methods that return
 * a promise reject with it; constructors and methods that return a stream throw it.
 *
 * @packageDocumentation
 */

export type * from '../base/types.js'
export type * from './budget.js'
export type * from './checkpoint.js'
export type * from './command.js'
export type * from './errors.js'
export type * from './events.js'
export type * from './exec.js'
export type * from './exit.js'
export type * from './files.js'
export type * from './hold.js'
export type * from './host-commands.js'
export type * from './isolation.js'
export type * from './jobs.js'
export type * from './limits.js'
export type * from './logs.js'
export type * from './merge.js'
export type * from './ports.js'
export type * from './process.js'
export type * from './programs.js'
export type * from './questions.js'
export type * from './request-handlers.js'
export type * from './result.js'
export type * from './sandbox.js'
export type * from './secrets.js'
export type * from './service.js'
export type * from './session.js'
export type * from './stats.js'
export type * from './suspend.js'
export type * from './waits.js'
export type * from './workspace.js'
