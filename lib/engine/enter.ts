/**
 * What `nacre-supervisor --enter` and the client have in common: crates/supervisor/src/enter.rs has the rest. Its exit codes are
 * these.
 */
export const NO_BASH = 70
export const MOUNT_MISSING = 71
export const NO_ADDON = 72
export const NO_RUNTIME = 73
/** That of the server, which has refused the options. The last line of its errors is the envelope of its error. */
export const REFUSED = 76

/** Where the container has the files of nacre. */
export const INSIDE = '/opt/nacre'

/** The program of nacre in the container, which needs none of the image. */
export const SUPERVISOR = `${INSIDE}/nacre-supervisor`
