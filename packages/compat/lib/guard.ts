/**
 * Which requests are served: those from programs of this machine to a name of this machine. A page in a browser sends its
 * `Origin`; a page whose name was made to point here (DNS rebinding) sends that name as `Host`.
 */
import type { IncomingHttpHeaders } from 'node:http'
import { HttpError } from './failure.js'

const OWN_NAME = /^(?:(?:[a-z0-9-]+\.)?localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/i
const PREVIEW = /^(\d{1,5})-([a-z0-9_-]+)\.localhost(?::\d{1,5})?$/i

/** Throws HttpError. Programs of sandboxes check the origin of previews themselves. */
export function checkCaller({ host = '', origin }: IncomingHttpHeaders, isPreview: boolean): void {
  if (!OWN_NAME.test(host)) throw new HttpError(403, 'the header Host must be localhost or a name below it')
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
