/** The archives of a server, and the sandbox that becomes one or goes on with one. */
import {
  type ArchiveReadOptions,
  type Archives,
  archiveReadOptions,
  type ResumedOnServer,
  type ServerArchive,
  uploadOptions,
} from '../../calls/suspend.js'
import * as endpoints from '../../protocol/endpoints.js'
import { archiveCalls } from '../../protocol/simple-calls.js'
import { byteStream } from '../../sandbox/files.js'
import { commandInput } from '../../schema/command.js'
import { readId } from '../../schema/names.js'
import { readArgument, readOptions, readWithDefaults } from '../../schema/read.js'
import type { Connection } from './connection.js'
import { Download } from './download.js'
import { Source } from './files.js'
import { withCalls } from './simple-calls.js'
import { chunksOf, Upload } from './upload-body.js'

class ArchiveCalls extends withCalls(archiveCalls) {}

export class HttpArchives implements Archives {
  readonly calls: ArchiveCalls
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
    this.calls = new ArchiveCalls(connection)
  }

  async list(): Promise<ServerArchive[]> {
    return await this.calls.list()
  }

  readStream(id: string, options?: ArchiveReadOptions): ReadableStream<Uint8Array> {
    const [archiveId, { signal }] = [
      readId(id),
      readOptions(archiveReadOptions, options, 'archives.readStream'),
    ]
    const request = { method: 'GET', path: `/v1/archives/${archiveId}`, signal, subject: 'the read' } as const
    return byteStream(() => new Source(() => Download.begin(this.#connection, request)), signal)
  }

  async delete(id: string): Promise<void> {
    await this.calls.delete({ archiveId: readId(id) })
  }

  async resume(archive: unknown, options: unknown): Promise<ResumedOnServer> {
    const { signal, ...query } = readWithDefaults(uploadOptions, options, 'resume')
    const data = readArgument(commandInput, archive, 'archive')
    const upload = new Upload(chunksOf(data instanceof Uint8Array ? [data] : data))
    const request = { query, signal, subject: 'the upload', content: upload.content }
    return await upload.sent(this.#connection.call(endpoints.resume, request))
  }
}
