/** The recordings of `@nacre/console`, which its page plays. */
import { engineError } from 'nacre/internal'
import { replies } from 'nacre/internal/server'
import type { Recordings, StoredRecording } from '../console.js'
import type { Define } from '../route.js'

const recording = replies.reply<StoredRecording>({
  name: replies.text,
  bytes: replies.number,
  modifiedAt: replies.date,
})
const recordingList = replies.only('recordings', replies.list(recording))

export function addRecordings(define: Define, recordings: Recordings): void {
  define({
    method: 'GET',
    path: '/v1/recordings',
    summary: 'Lists the recordings, the newest first.',
    reply: recordingList,
    handle: () => recordings.list(),
  })
  define({
    method: 'GET',
    path: '/v1/recordings/{recording}',
    summary: 'Returns a recording as asciicast v3.',
    reply: 'text',
    errors: ['FILE_NOT_FOUND'],
    async handle({ params: { recording } }) {
      const content = await recordings.read(recording)
      if (content === undefined) throw engineError('FILE_NOT_FOUND', `there is no recording '${recording}'`)
      const headers = {
        'cache-control': 'no-store',
        'content-type': 'application/x-asciicast',
        'x-content-type-options': 'nosniff',
      }
      return new Response(new Uint8Array(content), { headers })
    },
  })
}
