/** Servers whose replies are none: the call fails, and this program goes on. */
import { connectProgram } from 'nacre/engine'
import { describe, expect, it } from 'vitest'
import { withTag } from '../helpers/program.js'
import { rejectionOf } from '../helpers/thrown.js'

/** Answers every request with a status, over its standard input and output. By hand: Node.js sends no such status. */
const SERVER = `
  const frame = (type, flags, stream, body) => {
    const head = Buffer.alloc(9)
    head.writeUIntBE(body.length, 0, 3)
    head.writeUInt16BE(type * 256 + flags, 3)
    head.writeUInt32BE(stream, 5)
    process.stdout.write(Buffer.concat([head, body]))
  }
  const [SETTINGS, HEADERS, END] = [4, 1, 5]
  const status = Buffer.from('\\x08\\x03' + process.argv[1], 'latin1')
  frame(SETTINGS, 0, 0, Buffer.alloc(0))
  let data = Buffer.alloc(0)
  let start = 'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n'.length
  process.stdin.on('data', (more) => {
    data = Buffer.concat([data, more])
    while (data.length >= start + 9 && data.length >= start + 9 + data.readUIntBE(start, 3)) {
      if (data[start + 3] === HEADERS) frame(HEADERS, END, data.readUInt32BE(start + 5), status)
      start += 9 + data.readUIntBE(start, 3)
    }
  })
`

describe('a reply', () => {
  it.each([204, 205, 304, 600, 700, 999])('with the status %i is none of nacre', (status) =>
    withTag(async (tag) => {
      const argv = ['node', '-e', SERVER, String(status)]
      const sandbox = await connectProgram(argv, { env: { NACRE_TEST_TAG: tag } })
      try {
        expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({ code: 'CONNECTION_FAILED' })
        expect(await rejectionOf(sandbox.capabilities())).toMatchObject({ code: 'CONNECTION_FAILED' })
      } finally {
        await sandbox.close()
      }
    }),
  )
})
