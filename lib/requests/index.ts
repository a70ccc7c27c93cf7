/** How the arguments of calls are checked, for companion packages. */

export * from './events.js'
export * from './exec.js'
export * from './files.js'
export * from './jobs.js'
export * from './logs.js'
export * from './process.js'
export * from './service.js'
export * from './waits.js'
export * from './workspace.js'
