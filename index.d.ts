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

export * from './types/command'
export * from './types/errors'
export * from './types/exec'
export * from './types/jobs'
export * from './types/logs'
export * from './types/process'
export * from './types/sandbox'
export * from './types/service'
export * from './types/session'
export * from './types/waits'
