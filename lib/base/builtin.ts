/**
 * Modules of Node, as the runtime itself has them.
 *
 * Test runners let a suite replace what `import` returns in the whole process: `mock.module` in Bun, `vi.mock` in Vitest.
 * nacre must work there too. Code of the client does not import this file, since browsers have no such modules.
 */
if (process.getBuiltinModule === undefined) {
  const message = `nacre needs Node.js 20.19, 22.3 or newer, and this is ${process.version}: install a newer one`
  throw Object.assign(new Error(message), { code: 'ADDON_UNSUPPORTED_NODE' })
}

export const buffer = process.getBuiltinModule('node:buffer')
export const diagnosticsChannel = process.getBuiltinModule('node:diagnostics_channel')
export const fs = process.getBuiltinModule('node:fs')
export const os = process.getBuiltinModule('node:os')
export const path = process.getBuiltinModule('node:path')
export const stringDecoder = process.getBuiltinModule('node:string_decoder')
/** A copy: test runners also replace the functions of the module. */
export const timers = { ...process.getBuiltinModule('node:timers/promises') }
export const url = process.getBuiltinModule('node:url')
export const util = process.getBuiltinModule('node:util')

/** Loaded on first use: it would take a fifth of the time to import nacre. */
export const crypto = () => process.getBuiltinModule('node:crypto')

/** Loaded on first use, by programs that connect through another program, and to ports. */
export const childProcess = () => process.getBuiltinModule('node:child_process')
export const http2 = () => process.getBuiltinModule('node:http2')
export const net = () => process.getBuiltinModule('node:net')
export const stream = () => process.getBuiltinModule('node:stream')
