/** Values of another realm, as test runners with own globals have them, are taken like those of this one. */
import vm from 'node:vm'
import { describe, expect } from 'vitest'
import { itHolds } from './helper.js'

const foreign = vm.createContext({ URL })

/** Bytes of another realm. */
const bytes = (text: string): Uint8Array =>
  vm.runInContext(`Uint8Array.from(${JSON.stringify([...Buffer.from(text)])})`, foreign)

describe('values of another realm', () => {
  itHolds('are bytes, expressions and options', async ({ sandbox }) => {
    expect(bytes('x') instanceof Uint8Array).toBe(false)
    expect((await sandbox.exec('cat', { input: bytes('input') })).stdout).toBe('input')
    const chunks = vm.runInContext('(async function* () { yield Uint8Array.of(97); yield "b" })()', foreign)
    expect((await sandbox.exec('cat', { input: chunks })).stdout).toBe('ab')

    await sandbox.files.write(bytes('file'), bytes('content'))
    expect(await sandbox.files.read('file', { encoding: 'utf8' })).toBe('content')
    const large = bytes('x'.repeat(3_000_000))
    expect((await sandbox.files.write('large', large)).size).toBe(3_000_000)
    await sandbox.files.write('file', bytes(' and more'), { append: true })
    expect(await sandbox.files.read('file', { encoding: 'utf8' })).toBe('content and more')

    const process = await sandbox.startProcess('cat', { input: 'pipe' })
    await process.write(bytes('port 80\n'))
    const expression = vm.runInContext('/PORT (?<port>\\d+)/i', foreign)
    expect((await process.waitForLog(expression)).match?.groups?.port).toBe('80')
    await process.kill()
    const healthCheck = vm.runInContext('({ log: /rea.y/ })', foreign)
    const service = await sandbox.startService('echo ready; sleep 60', { healthCheck })
    expect(service.status).toBe('running')
  })
})
