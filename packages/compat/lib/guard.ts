/**
 * Which requests are served: those from programs of this machine to a name of this machine. A page in a browser sends its
 * `Origin`; a page whose name was made to point here (DNS rebinding) sends that name as `Host`.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { isLoopbackName } from '@nacre/server/internal'
import { HttpError } from './failure.js'

/** What precedes the name of this machine in that of a preview. */
const BELOW = /^[a-z0-9-]+\.(?=localhost\b)/i
const PREVIEW = /^(\d{1,5})-([a-z0-9_-]+)\.localhost(?::\d{1,5})?$/i

/** Throws HttpError. Programs of sandboxes check the origin of previews themselves. */
export function checkCaller({ host = '', origin }: IncomingHttpHeaders, isPreview: boolean): void {
  if (!isLoopbackName(host.replace(BELOW, '')))
    throw new HttpError(403, 'the header Host must be localhost or a name below it')
  if (origin !== undefined && !isPreview) throw new HttpError(403, 'pages in browsers may not call')
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
