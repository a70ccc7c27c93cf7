/** Servers whose replies are none: the call fails, and this program goes on. */
import { connectProgram } from 'nacre/engine'
import { describe, expect, it } from 'vitest'
import { withTag } from '../helpers/program.js'
import { rejectionOf } from '../helpers/thrown.js'

/** Answers every request with a status, over its standard input and output. */
const SERVER = `
  const { Duplex } = require('node:stream')
  const server = require('node:http2').createServer()
  server.on('stream', (stream, { ':path': path }) => {
    stream.respond({ ':status': Number(process.argv[1]) })
    stream.end()
  })
  server.emit('connection', Duplex.from({ readable: process.stdin, writable: process.stdout }))
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
