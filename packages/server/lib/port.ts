/** A connection to a server on this machine, on a stream of HTTP/2 by its method CONNECT. */
import { constants, type ServerHttp2Stream } from 'node:http2'
import { connect } from 'node:net'
import { pipeline } from 'node:stream'

/** Only loopback: it is for servers that commands have started. */
const HOST = 'localhost'

/** Connects the stream to a port. Answers 502 if there is no listener, and 400 for an authority of another host. */
export function openPort(stream: ServerHttp2Stream, authority: string): void {
  const port = Number(/^localhost:(\d{1,5})$/.exec(authority)?.[1])
  // The close follows.
  stream.on('error', () => {})
  const refuse = (status: number) => {
    if (!stream.destroyed) stream.respond({ ':status': status }, { endStream: true })
  }
  if (!(port >= 1 && port <= 65_535)) {
    refuse(constants.HTTP_STATUS_BAD_REQUEST)
    return
  }
  const socket = connect(port, HOST)
  const fail = () => refuse(constants.HTTP_STATUS_BAD_GATEWAY)
  socket.once('error', fail)
  stream.once('close', () => socket.destroy())
  socket.once('connect', () => {
    socket.off('error', fail)
    if (stream.destroyed) return
    stream.respond({ ':status': constants.HTTP_STATUS_OK })
    pipeline(socket, stream, socket, () => stream.close())
  })
}
