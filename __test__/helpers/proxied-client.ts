/** A client whose requests go through a proxy that can fail them. */
import type { SandboxOptions } from 'nacre'
import { type ClientOptions, SandboxClient } from 'nacre/client'
import { type FailingProxy, failingProxy } from './failing-proxy.js'
import { type HttpPlace, withServer } from './http.js'

export interface ProxiedPlace extends HttpPlace {
  proxy: FailingProxy
  client: SandboxClient
}

/** The sandbox of the server has these `options`. */
export function withProxy(
  test: (place: ProxiedPlace) => Promise<void>,
  clientOptions: Partial<ClientOptions> = {},
  { token, keepAlive, options }: { token?: string; keepAlive?: boolean; options?: SandboxOptions } = {},
): Promise<void> {
  return withServer(
    async (place) => {
      const proxy = await failingProxy(place.serving.port, keepAlive)
      const client = new SandboxClient({ url: proxy.url, ...clientOptions })
      try {
        await test({ ...place, proxy, client })
      } finally {
        await client.destroy()
        await proxy.close()
      }
    },
    token === undefined ? {} : { token },
    { options: options ?? {} },
  )
}
