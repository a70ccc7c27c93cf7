/** Requests that programs sign with a placeholder by AWS Signature Version 4, with curl and a server that checks signatures. */
import { createHash, createHmac } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import type { Seen } from '../helpers/origin.js'
import { startProxiedOrigin } from '../helpers/proxied-origin.js'

const VALUE = 'wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY'
const origin = await startProxiedOrigin()
const { target } = origin
const options = {
  isolation: origin.rules({
    secrets: { AWS_SECRET_ACCESS_KEY: { value: VALUE, hosts: [target], in: ['aws-signature'] } },
  }),
  env: { AWS_ACCESS_KEY_ID: 'AKIDEXAMPLE' },
}

const hash = (text: string) => createHash('sha256').update(text).digest('hex')
const mac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest()

/** The signature that a request must have, and the one that it has. */
function signatures(method: string, { url, headers, body, authorization = '' }: Seen): [string, string] {
  const member = (name: string) => new RegExp(`${name}=([^,]+)`).exec(authorization)?.[1] ?? ''
  const [path, query = ''] = url.split('?')
  const [, ...scope] = member('Credential').split('/')
  const names = member('SignedHeaders').split(';')
  const value = (name: string) => headers[name] ?? (name === 'host' ? headers[':authority'] : undefined)
  const content = headers['x-amz-content-sha256'] ?? hash(body)
  const lines = names.map((name) => `${name}:${value(name)}\n`).join('')
  const canonical = [method, path, query.split('&').sort().join('&'), lines, names.join(';'), content]
  const time = headers['x-amz-date']
  const text = ['AWS4-HMAC-SHA256', time, scope.join('/'), hash(canonical.join('\n'))].join('\n')
  const key = scope.reduce<string | Buffer>((key, part) => mac(key, part), `AWS4${VALUE}`)
  return [mac(key, text).toString('hex'), member('Signature')]
}

const curl = (service: string, file: string, more = '', key = '$AWS_SECRET_ACCESS_KEY') =>
  `curl -sS --aws-sigv4 aws:amz:us-east-1:${service} --user "$AWS_ACCESS_KEY_ID:${key}" ${more} 'https://${target}${file}'`

describe('a secret in aws-signature', () => {
  for (const version of ['--http1.1', '--http2'])
    it(`signs what programs have signed with the placeholder: ${version}`, () =>
      withSandbox(
        async ({ sandbox }) => {
          for (const [method, command] of [
            ['GET', curl('s3', '/key?a=1&b=2', version)],
            ['GET', curl('s3', '/key', `${version} -H 'Range: bytes=0-9'`)],
            ['PUT', curl('s3', '/key', `${version} -X PUT -d 'a body'`)],
            ['POST', curl('dynamodb', '/', `${version} -H 'X-Amz-Target: a.B' -d '{"a":1}'`)],
          ] as const) {
            const { stdout, stderr } = await sandbox.exec(command)
            expect(stdout, stderr).toBe('hello')
            const [expected, found] = signatures(method, origin.seen.at(-1) as Seen)
            expect(found, command).toBe(expected)
          }
          expect(origin.seen.some(({ headers }) => headers.range === 'bytes=0-9')).toBe(true)
          expect(JSON.stringify(origin.seen)).not.toContain(VALUE)
        },
        { options },
      ))

  it('signs nothing else, and no body that is too long', () =>
    withSandbox(
      async ({ sandbox }) => {
        await sandbox.exec(curl('s3', '/key', '', 'another-key'))
        const [expected, found] = signatures('GET', origin.seen.at(-1) as Seen)
        expect(found).not.toBe(expected)
        await sandbox.exec(`curl -sS -H "Authorization: Bearer $AWS_SECRET_ACCESS_KEY" https://${target}/`)
        expect(origin.seen.at(-1)?.authorization).toMatch(/^Bearer [\w+/]{40}$/)
        expect(JSON.stringify(origin.seen)).not.toContain(VALUE)
        const count = origin.seen.length
        await sandbox.exec('head -c 2000000 /dev/zero > file')
        const { stdout, stderr } = await sandbox.exec(curl('dynamodb', '/', '--http1.1 --data-binary @file'))
        expect(stdout, stderr).toContain(
          'a body of more than 1048576 bytes needs the header x-amz-content-sha256',
        )
        expect(origin.seen).toHaveLength(count)
        const header = "-H 'X-Amz-Content-Sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD'"
        const parts = await sandbox.exec(curl('s3', '/key', `--http1.1 -T file ${header}`))
        expect(parts.stdout).toContain('each part of the body is signed')
        expect(origin.seen).toHaveLength(count)
      },
      { options },
    ))
})
