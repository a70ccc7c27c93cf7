/**
 * One watch: a request whose response is a line of JSON for each event.
 *
 * `Watch` of @kubernetes/client-node cannot be used: it waits for ever for a response that does not begin, and cannot be
 * aborted before. The KubeConfig makes the TLS options and the credentials.
 */

import { request as requestHttp } from 'node:http'
import { type RequestOptions, request as requestHttps } from 'node:https'
import type { KubeConfig } from '@kubernetes/client-node'
import { clock } from 'nacre/internal'

/** Milliseconds in which a response must begin. */
const BEGIN_MS = 30_000
/** An object of Kubernetes has at most 1.5 MB. */
const MOST_LINE_CHARACTERS = 8 * 1024 * 1024
/** A larger error is cut. */
const MOST_ERROR_CHARACTERS = 10_000

/** What the server has sent is no event, or `onEvent` has thrown. */
export class InvalidEvent extends Error {}

export interface WatchRequest {
  config: KubeConfig
  path: string
  query: Record<string, string>
  /** Ends the watch, which then resolves. */
  stop: AbortSignal
}

/** Resolves when the server has ended the watch. Rejects when it fails; `code` is the status of a refusal. */
export async function watchLines(
  { config, path, query, stop }: WatchRequest,
  onEvent: (event: unknown) => void,
): Promise<void> {
  const cluster = config.getCurrentCluster()
  if (cluster === null) throw new Error('the kubeConfig has no current cluster')
  const url = new URL(cluster.server + path)
  url.search = new URLSearchParams({ ...query, watch: 'true' }).toString()
  const options: RequestOptions = {}
  await config.applyToHTTPSOptions(options as Parameters<KubeConfig['applyToHTTPSOptions']>[0])
  if (cluster.tlsServerName) options.servername = cluster.tlsServerName
  await new Promise<void>((resolve, reject) => {
    const begin = url.protocol === 'http:' ? requestHttp : requestHttps
    const request = begin(url, options)
    const timer = clock.setTimeout(() => request.destroy(new Error('the watch was not answered')), BEGIN_MS)
    const end = () => {
      clock.clearTimeout(timer)
      stop.removeEventListener('abort', end)
      request.destroy()
      resolve()
    }
    stop.addEventListener('abort', end)
    if (stop.aborted) end()
    request.on('error', (error) => {
      reject(error)
      end()
    })
    request.on('response', (response) => {
      clock.clearTimeout(timer)
      response.socket?.setKeepAlive(true, BEGIN_MS)
      response.on('error', (error) => {
        reject(error)
        end()
      })
      response.on('close', end)
      response.setEncoding('utf8')
      if (response.statusCode === 200) {
        let rest = ''
        response.on('data', (data: string) => {
          const lines = (rest + data).split('\n')
          rest = lines.pop() ?? ''
          try {
            if (rest.length > MOST_LINE_CHARACTERS) throw new Error('it is too long')
            for (const line of lines) if (!stop.aborted && line !== '') onEvent(JSON.parse(line))
          } catch (cause) {
            reject(new InvalidEvent(`an event of the watch cannot be used: ${cause}`, { cause }))
            end()
          }
        })
        return
      }
      let text = ''
      response.on('data', (data) => {
        text = (text + data).slice(0, MOST_ERROR_CHARACTERS)
      })
      response.on('end', () =>
        reject(Object.assign(new Error(text), { code: response.statusCode, body: text })),
      )
    })
    request.end()
  })
}
