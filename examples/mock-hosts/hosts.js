/** Functions that answer in place of hosts. They use `Request` and `Response`, like `fetch`. */
import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'

/** The API of a registry of packages, with one package. */
export function registry(request) {
  const { pathname } = new URL(request.url)
  if (pathname === '/greeting/-/greeting-1.0.0.tgz') return new Response(ARCHIVE)
  if (pathname !== '/greeting') return Response.json({ error: 'not found' }, { status: 404 })
  const dist = {
    tarball: new URL('/greeting/-/greeting-1.0.0.tgz', request.url),
    integrity: `sha512-${createHash('sha512').update(ARCHIVE).digest('base64')}`,
  }
  const versions = { '1.0.0': { name: 'greeting', version: '1.0.0', dist } }
  return Response.json({ name: 'greeting', 'dist-tags': { latest: '1.0.0' }, versions })
}

/** The part of an API that the agent may use. The rules let nothing else through. */
export async function github(request) {
  if (request.method !== 'POST') return Response.json([])
  const { title } = await request.json()
  return new Response(`pull request 1: ${title}\n`, { status: 201 })
}

const ARCHIVE = gzipSync(
  Buffer.concat([
    file('package/package.json', '{"name":"greeting","version":"1.0.0","main":"index.js"}'),
    file('package/index.js', 'module.exports = "hello from a mocked registry"\n'),
    Buffer.alloc(1024),
  ]),
)

/** A file of a tar archive. */
function file(name, text) {
  const header = Buffer.alloc(512)
  const write = (value, offset, length) => header.write(value.padEnd(length, '\0'), offset, 'latin1')
  const octal = (number, digits) => `${number.toString(8).padStart(digits, '0')}\0`
  write(name, 0, 100)
  write(octal(0o644, 7) + octal(0, 7) + octal(0, 7), 100, 24)
  write(octal(text.length, 11) + octal(0, 11), 124, 24)
  write('        0', 148, 9)
  write('ustar\x0000', 257, 8)
  const sum = header.reduce((total, byte) => total + byte, 0)
  write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 8)
  const padding = Buffer.alloc((512 - (text.length % 512)) % 512)
  return Buffer.concat([header, Buffer.from(text), padding])
}
