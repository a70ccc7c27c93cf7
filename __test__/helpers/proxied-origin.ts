/** What the tests of decrypted connections share: a server with TLS, and rules that trust it. */
import { type IsolationRules, type NetworkRules, Sandbox } from 'nacre'
import { afterAll, beforeAll } from 'vitest'
import { startOrigin, type TlsOrigin } from './origin.js'

/** A secret's value. No test sends it to a real service. */
export const VALUE = `ghp_${'Zx9Kq2Lm7'.repeat(4)}`

export interface ProxiedOrigin extends TlsOrigin {
  /** Its host and port. */
  target: string
  /** Rules with which programs reach only what `network` allows. */
  rules(network: Partial<NetworkRules>): IsolationRules
}

/** Starts the thread of all proxies before the tests of a file: it stays once it has been started. */
export function startProxyThread(): void {
  beforeAll(async () => {
    const sandbox = new Sandbox({ isolation: { network: { allow: [] } } })
    await sandbox.exec('true')
    await sandbox.destroy()
  })
}

/** Starts a server for the tests of a file. */
export async function startProxiedOrigin(): Promise<ProxiedOrigin> {
  const origin = await startOrigin()
  startProxyThread()
  afterAll(() => origin.close())
  return {
    ...origin,
    target: `localhost:${origin.port}`,
    rules: (network) => ({
      network: { allow: [], authorities: [origin.authority], ...network },
      processes: 'own',
    }),
  }
}
