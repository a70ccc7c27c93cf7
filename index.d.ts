/// <reference types="node" />

/**
 * nacre runs shell commands in persistent bash sessions, on Linux, from Node.js >= 20 and Bun >= 1.3.
 *
 * All times are in milliseconds and all sizes in bytes. Options that are `undefined` count as not given. An unknown
 * option name or a value out of range is an {@link OptionError} (a TypeError) before anything runs: methods that
 * return a promise reject with it, the constructor and `execStream` throw it.
 *
 * @packageDocumentation
 */

export * from './types/command.js'
export * from './types/errors.js'
export * from './types/exec.js'
export * from './types/jobs.js'
export * from './types/logs.js'
export * from './types/process.js'
export * from './types/sandbox.js'
export * from './types/service.js'
export * from './types/session.js'
export * from './types/waits.js'
