/** Forms of files. */
import type { Readable } from 'node:stream'
import { Busboy } from '@fastify/busboy'
import { HttpError } from './failure.js'

/** In one form. */
const MOST_PARTS = 10_000

export type Part = (field: string, content: Readable, fileName: string | undefined) => Promise<void>

export function isForm(type: string): boolean {
  return /^multipart\/form-data\s*(;|$)/i.test(type)
}

/** Takes the parts one after the other; each must be read. Resolves when all are taken. Rejects with HttpError. */
export function receiveForm(body: Readable, type: string, take: Part): Promise<void> {
  const form = openForm(type)
  return new Promise((resolve, reject) => {
    let last = Promise.resolve()
    let part: Readable | undefined
    const fail = (error: unknown) => {
      body.unpipe(form)
      part?.destroy(error as Error)
      reject(error)
    }
    form.on('file', (field: string, content: Readable, name: string | undefined) => {
      // What ends the form early is reported by the parser, too.
      content.on('error', () => {})
      part = content
      last = last.then(() => take(field, content, name))
      last.catch(fail)
    })
    form.once('error', (error: unknown) => fail(new HttpError(400, `the form cannot be read: ${error}`)))
    form.once('partsLimit', () => fail(new HttpError(400, `the form has more than ${MOST_PARTS} parts`)))
    form.once('finish', () => last.then(resolve, reject))
    body.once('error', fail)
    body.once('close', () => {
      if (!body.readableEnded) fail(new HttpError(400, 'the body broke off'))
    })
    body.pipe(form)
  })
}

function openForm(type: string): InstanceType<typeof Busboy> {
  try {
    return new Busboy({
      headers: { 'content-type': type },
      // Some clients send parts without a file name.
      isPartAFile: () => true,
      // The name of the file is its path.
      preservePath: true,
      limits: { parts: MOST_PARTS },
    })
  } catch (error) {
    throw new HttpError(400, `the form cannot be read: ${(error as Error).message}`)
  }
}
