/** Which requests are served: those from programs of this machine to a name of this machine, and previews. */
import type { IncomingHttpHeaders } from 'node:http'
import { Guard, headerFields, isLoopbackName } from '@nacre/server/internal'

/** What precedes the name of this machine in that of a preview. */
const BELOW = /^[a-z0-9-]+\.(?=localhost\b)/i
const PREVIEW = /^(\d{1,5})-([a-z0-9_-]+)\.localhost(?::\d{1,5})?$/i

const guard = new Guard({ isName: (host) => isLoopbackName(host.replace(BELOW, '')) })

/** Throws a Refusal. Programs of sandboxes check the origin of previews themselves. */
export function checkCaller(given: IncomingHttpHeaders, isPreview: boolean): void {
  const headers = headerFields(given)
  guard.checkName(headers)
  if (!isPreview) guard.checkOrigin(headers)
}

export interface Preview {
  port: number
  id: string
}

/** The port and the sandbox in a host name like '3000-id.localhost:49983'. */
export function previewOf({ host = '' }: IncomingHttpHeaders): Preview | undefined {
  const [, port, id = ''] = PREVIEW.exec(host) ?? []
  return port === undefined ? undefined : { port: Number(port), id: id.toLowerCase() }
}
