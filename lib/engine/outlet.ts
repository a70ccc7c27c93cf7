/**
 * The network of a virtual machine: a sandbox of this machine with its rules and without commands. `nacre-supervisor --vm`
 * carries the connections of the guest to its proxy, so whatever the guest does, this machine decides.
 */
import { Sandbox } from '../backends/native/sandbox.js'
import { refuseAborted } from '../base/abort.js'
import type { EngineNetwork } from '../calls/engine.js'

export interface Outlet {
  /** A process in its network namespace. */
  pid: number
  /** How programs of the guest find the proxy, at the same address. */
  env: Record<string, string>
  close(): Promise<void>
}

/** Rejects with ISOLATION_UNSUPPORTED where sessions cannot have a network of their own. */
export async function openOutlet(network: EngineNetwork, signal: AbortSignal | undefined): Promise<Outlet> {
  const sandbox = new Sandbox({ cwd: '/', isolation: { network, filesystem: { write: [] } } })
  try {
    const { stdout } = await sandbox.exec('echo "$$ $HTTP_PROXY $NO_PROXY"', { ...(signal && { signal }) })
    const [pid, proxy = '', direct = ''] = stdout.trim().split(' ')
    const values = { HTTP_PROXY: proxy, HTTPS_PROXY: proxy, ALL_PROXY: proxy, NO_PROXY: direct }
    const lower = Object.entries(values).map(([name, value]) => [name.toLowerCase(), value])
    // Node.js 24 and newer ignores the other variables without this one.
    const env = { ...values, ...Object.fromEntries(lower), NODE_USE_ENV_PROXY: '1' }
    return { pid: Number(pid), env, close: () => sandbox.destroy() }
  } catch (error) {
    await sandbox.destroy()
    refuseAborted(signal, 'opening the sandbox')
    throw error
  }
}
