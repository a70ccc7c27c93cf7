/** What sandboxd shares with every runtime of the standard: health, reflection, metadata, addresses. */
import path from 'node:path'
import type * as grpc from '@grpc/grpc-js'
import * as loader from '@grpc/proto-loader'
import { protoPath } from 'grpc-health-check'
import { describe, expect, it } from 'vitest'
import { connect, type Place, statusName, withSandboxd } from './place.js'

const SERVICE = 'process.v1.ProcessService'
const root = path.resolve(__dirname, '../../..')

/** A client that knows no service before it asks for it. */
function generic(place: Place, definition: loader.PackageDefinition, service: string, method: string) {
  const found = (definition[service] as grpc.ServiceDefinition)[method]
  if (found === undefined) throw new Error(`${service} has no ${method}`)
  return { client: connect(place.sandboxd.grpcPort), method: found as grpc.MethodDefinition<object, object> }
}

function check(place: Place, service: string): Promise<{ status: string }> {
  const definition = loader.loadSync(protoPath, { enums: String })
  const { client, method } = generic(place, definition, 'grpc.health.v1.Health', 'Check')
  return new Promise<{ status: string }>((resolve, reject) => {
    client.makeUnaryRequest(
      method.path,
      method.requestSerialize,
      method.responseDeserialize,
      { service },
      (error, reply) => {
        client.close()
        if (error) reject(error)
        else resolve(reply as { status: string })
      },
    )
  })
}

type ReflectionReply = Record<string, unknown> & {
  listServicesResponse?: { service: Array<{ name: string }> }
  fileDescriptorResponse?: { fileDescriptorProto: Buffer[] }
}

/** Asks the reflection service, whose definition comes with its package. */
function reflect(place: Place, version: 'v1' | 'v1alpha', request: object): Promise<ReflectionReply> {
  const directory = path.join(root, 'node_modules/@grpc/reflection/build/proto')
  const definition = loader.loadSync(`grpc/reflection/${version}/reflection.proto`, {
    includeDirs: [directory],
  })
  const service = `grpc.reflection.${version}.ServerReflection`
  const { client, method } = generic(place, definition, service, 'ServerReflectionInfo')
  return new Promise((resolve, reject) => {
    const call = client.makeBidiStreamRequest(
      method.path,
      method.requestSerialize,
      method.responseDeserialize,
    )
    call.on('data', (reply) => {
      call.end()
      resolve(reply as ReflectionReply)
    })
    call.on('error', reject)
    call.on('status', () => client.close())
    call.write(request)
  })
}

describe('health', () => {
  it('is SERVING until the sandbox is destroyed, over gRPC and REST', () =>
    withSandboxd(
      async (place) => {
        for (const service of ['', SERVICE])
          expect(await check(place, service)).toEqual({ status: 'SERVING' })
        expect(statusName(await check(place, 'other').catch((error) => error))).toBe('NOT_FOUND')
        const healthy = await place.rest('GET', '/v1/health')
        expect([healthy.status, healthy.json()]).toEqual([
          200,
          { status: 'ok', uptime_seconds: expect.any(Number) },
        ])
        await place.workplace.sandbox.destroy()
        for (const service of ['', SERVICE])
          expect(await check(place, service)).toEqual({ status: 'NOT_SERVING' })
        const { status, json } = await place.rest('GET', '/v1/health')
        expect([status, json()]).toEqual([503, { code: 'UNAVAILABLE', message: expect.any(String) }])
        const error = await place.execute({ command: ['true'] }).catch((caught) => caught)
        expect(statusName(error)).toBe('UNAVAILABLE')
        expect((await place.rest('GET', '/v1/files/x')).status).toBe(503)
      },
      {},
      { destroys: true },
    ))
})

describe('reflection', () => {
  it('lets a client find the service and call it', () =>
    withSandboxd(async (place) => {
      for (const version of ['v1', 'v1alpha'] as const) {
        const listed = await reflect(place, version, { listServices: '' })
        expect(listed.listServicesResponse?.service.map(({ name }) => name)).toContain(SERVICE)
        const described = await reflect(place, version, { fileContainingSymbol: SERVICE })
        const files = described.fileDescriptorResponse?.fileDescriptorProto ?? []
        expect(files.length).toBeGreaterThan(0)
        // The message is a FileDescriptorSet: its files as field 1.
        const set = Buffer.concat(
          files.map((file) => Buffer.concat([Buffer.from([0x0a]), varint(file.length), file])),
        )
        const definition = loader.loadFileDescriptorSetFromBuffer(set)
        const { client, method } = generic(place, definition, SERVICE, 'Execute')
        const reply = await new Promise((resolve, reject) => {
          const request = { config: { command: ['echo', 'found'] } }
          client.makeUnaryRequest(
            method.path,
            method.requestSerialize,
            method.responseDeserialize,
            request,
            (error, value) => {
              client.close()
              if (error) reject(error)
              else resolve(value)
            },
          )
        })
        expect((reply as { stdout: Buffer }).stdout.toString()).toBe('found\n')
      }
    }))
})

function varint(value: number): Buffer {
  const bytes: number[] = []
  for (let left = value; ; left >>>= 7) {
    if (left < 0x80) return Buffer.from([...bytes, left])
    bytes.push((left & 0x7f) | 0x80)
  }
}

describe('metadata', () => {
  it('shows variables with the prefix, and none that names a secret', () =>
    withSandboxd(
      async (place) => {
        const { status, json } = await place.rest('GET', '/v1/metadata')
        expect([status, json()]).toEqual([200, { env: { SANDBOX_ID: 'one', SANDBOX_WORKSPACE: '/w' } }])
      },
      {},
      {
        options: {
          env: {
            SANDBOX_ID: 'one',
            SANDBOX_WORKSPACE: '/w',
            SANDBOX_API_TOKEN: 'secret',
            SANDBOX_ssh_key: 'secret',
            SANDBOX_PASSWORD: 'secret',
            OTHER: 'x',
          },
        },
      },
    ))

  it('takes another prefix', () =>
    withSandboxd(
      async (place) => {
        expect((await place.rest('GET', '/v1/metadata')).json()).toEqual({ env: { MINE_A: '1' } })
      },
      { sandboxd: { metadataPrefix: 'MINE_' } },
      { options: { env: { MINE_A: '1', SANDBOX_ID: 'one' } } },
    ))
})

describe('the addresses', () => {
  const print = 'echo "$SANDBOXD_GRPC_ADDR $SANDBOXD_REST_ADDR"'
  const expected = ({ sandboxd: { grpcPort, restPort } }: Place) =>
    `127.0.0.1:${grpcPort} 127.0.0.1:${restPort}\n`

  it('are in the environment of every command of the sandbox', () =>
    withSandboxd(async (place) => {
      const { sandbox } = place.workplace
      const session = await sandbox.createSession()
      expect((await sandbox.exec(print)).stdout).toBe(expected(place))
      expect((await session.exec(print)).stdout).toBe(expected(place))
      const { stdout } = await place.execute({ command: ['sh', '-c', print] })
      expect(stdout.toString()).toBe(expected(place))
    }))
})

describe('REST', () => {
  it('refuses unknown routes and methods', () =>
    withSandboxd(async (place) => {
      const answer = async (method: string, target: string) => {
        const { status, json } = await place.rest(method, target)
        return [status, (json() as { code: string }).code]
      }
      for (const target of ['/', '/v1', '/v1/filesystem', '/v1/other', '/v2/health'])
        expect(await answer('GET', target)).toEqual([404, 'NOT_FOUND'])
      for (const [method, target] of [
        ['POST', '/v1/files/x'],
        ['PATCH', '/v1/files/x'],
        ['PUT', '/v1/health'],
        ['DELETE', '/v1/metadata'],
      ] as const)
        expect(await answer(method, target)).toEqual([405, 'METHOD_NOT_ALLOWED'])
      expect((await place.rest('HEAD', '/v1/health')).status).toBe(200)
    }))

  it('refuses pages in browsers, and names that only point at this machine', () =>
    withSandboxd(async (place) => {
      for (const headers of [
        { origin: 'https://example.com' },
        { origin: 'null' },
        { host: 'example.com' },
      ]) {
        const { status, json } = await place.rest('GET', '/v1/health', undefined, headers)
        expect([status, json()]).toEqual([403, { code: 'PERMISSION_DENIED', message: expect.any(String) }])
      }
      const { status } = await place.rest('GET', '/v1/health', undefined, { host: 'localhost:8080' })
      expect(status).toBe(200)
    }))

  it('answers fetch', () =>
    withSandboxd(async (place) => {
      const url = `http://127.0.0.1:${place.sandboxd.restPort}/v1/files/a`
      const body = new FormData()
      body.set('file', new Blob(['of a form']), 'name')
      expect((await fetch(url, { method: 'PUT', body })).status).toBe(204)
      expect(await (await fetch(url)).text()).toBe('of a form')
    }))
})
