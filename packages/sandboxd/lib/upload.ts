/**
 * The content of an upload: the body itself, or the part `file` of a form.
 */
import type { IncomingMessage } from 'node:http'
import { Busboy } from '@fastify/busboy'
import { RestRefusal } from './rest-error.js'

const PART = 'file'

/** `name`: the file name of the part, where there is one. */
type Write<T> = (content: AsyncIterable<Uint8Array>, name: string | undefined) => Promise<T>

/** Calls `write` with the content. A body that breaks off or is malformed fails the content before its end. */
export async function upload<T>(incoming: IncomingMessage, write: Write<T>): Promise<T> {
  const type = incoming.headers['content-type'] ?? ''
  const isForm = /^multipart\/form-data\s*(;|$)/i.test(type)
  return isForm
    ? uploadForm(incoming, type, write)
    : write(incoming.iterator({ destroyOnReturn: false }), undefined)
}

/** Resolves when the form has arrived and its first part `file` is written; everything else in it is dropped. */
async function uploadForm<T>(incoming: IncomingMessage, type: string, write: Write<T>): Promise<T> {
  const parser = opened(
    () =>
      new Busboy({
        headers: { 'content-type': type },
        isPartAFile: (name) => name === PART,
        preservePath: true,
        limits: { fieldSize: 64 * 1024 },
      }),
  )
  return new Promise<T>((resolve, reject) => {
    let written: Promise<T> | undefined
    let part: (NodeJS.ReadableStream & { destroy(error: Error): void }) | undefined
    const fail = (error: unknown) => {
      incoming.unpipe(parser)
      part?.destroy(malformed(error))
      if (written === undefined) reject(malformed(error))
    }
    const whole = new Promise<void>((done) => parser.once('finish', done))
    parser.on('error', fail)
    incoming.once('error', fail)
    incoming.once('close', () => {
      if (!incoming.complete) fail('the body broke off')
    })
    parser.on('file', (_field, stream, name: string | undefined) => {
      // What ends the form early is reported by the parser, too. Without a listener it would end this process.
      stream.on('error', () => {})
      if (part !== undefined) return void stream.resume()
      part = stream as unknown as typeof part
      written = write(untilEndOf(stream, whole), name)
      written.then(resolve, (error) => {
        incoming.unpipe(parser)
        reject(error)
      })
    })
    void whole.then(() => {
      if (part === undefined) reject(new RestRefusal('INVALID_ARGUMENT', `the form has no part \`${PART}\``))
    })
    incoming.pipe(parser)
  })
}

/** The content of a part. It ends when all of the form has arrived, so that half a form writes nothing. */
async function* untilEndOf(
  part: AsyncIterable<Uint8Array>,
  whole: Promise<void>,
): AsyncGenerator<Uint8Array> {
  yield* part
  await whole
}

function opened<T>(open: () => T): T {
  try {
    return open()
  } catch (error) {
    throw malformed(error)
  }
}

function malformed(error: unknown): RestRefusal {
  if (error instanceof RestRefusal) return error
  const reason = error instanceof Error ? error.message : String(error)
  return new RestRefusal('INVALID_ARGUMENT', `the form cannot be read: ${reason}`)
}
