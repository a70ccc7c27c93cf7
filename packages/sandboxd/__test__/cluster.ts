/** As much of a Kubernetes API server as clients of agent-sandbox need to find one sandbox, whose pod is this machine. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const CLAIMS =
  /^\/apis\/extensions\.agents\.x-k8s\.io\/v1beta1\/namespaces\/([^/]+)\/sandboxclaims(?:\/([^/]+))?$/
const SANDBOXES = /^\/apis\/agents\.x-k8s\.io\/v1beta1\/namespaces\/([^/]+)\/sandboxes\/([^/]+)$/

const READY = [{ type: 'Ready', status: 'True', reason: 'Ready', message: '' }]
const POD_IPS = ['127.0.0.1']

interface Claim {
  metadata: { name: string; namespace: string; uid: string; resourceVersion: string; labels?: object }
  spec: object
  status?: object
}

export interface Cluster {
  url: string
  close(): Promise<void>
}

/** A claim is bound and ready as soon as it is made. */
export async function startCluster(): Promise<Cluster> {
  const claims = new Map<string, Claim>()
  let version = 0
  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://cluster')
    const reply = (status: number, body: object) => {
      response.writeHead(status, { 'content-type': 'application/json' })
      response.end(JSON.stringify(body))
    }
    const missing = () => reply(404, { kind: 'Status', status: 'Failure', reason: 'NotFound', code: 404 })
    const [isClaim, namespace = '', name = ''] = CLAIMS.exec(pathname) ?? []
    if (SANDBOXES.test(pathname)) {
      const [, , sandbox = ''] = SANDBOXES.exec(pathname) ?? []
      const status = { conditions: READY, podIPs: POD_IPS, serviceFQDN: 'localhost' }
      return claims.has(sandbox) ? reply(200, { metadata: { name: sandbox, namespace }, status }) : missing()
    }
    if (isClaim === undefined) return missing()
    if (request.method === 'POST') {
      const pieces: Buffer[] = []
      for await (const piece of request) pieces.push(piece)
      const claim = JSON.parse(Buffer.concat(pieces).toString()) as Claim
      version++
      Object.assign(claim.metadata, { namespace, uid: `uid-${version}`, resourceVersion: `${version}` })
      claim.status = { conditions: READY, sandbox: { name: claim.metadata.name, podIPs: POD_IPS } }
      claims.set(claim.metadata.name, claim)
      return reply(201, claim)
    }
    if (name !== '') {
      const claim = claims.get(name)
      if (claim === undefined) return missing()
      if (request.method === 'DELETE') claims.delete(name)
      return reply(200, claim)
    }
    const wanted = /metadata\.name=(.+)/.exec(searchParams.get('fieldSelector') ?? '')?.[1]
    const items = [...claims.values()].filter(
      ({ metadata }) => wanted === undefined || metadata.name === wanted,
    )
    if (searchParams.get('watch') !== 'True' && searchParams.get('watch') !== 'true')
      return reply(200, { items, metadata: { resourceVersion: `${version}` } })
    response.writeHead(200, { 'content-type': 'application/json' })
    for (const object of items) response.write(`${JSON.stringify({ type: 'ADDED', object })}\n`)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()))
      server.closeAllConnections()
      return closed
    },
  }
}
