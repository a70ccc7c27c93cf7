/** The copy-on-write workspace of the server's sandbox. */
import { workspaceDiffOptions } from '../../calls/workspace.js'
import { encodeOptions } from '../../protocol/codec.js'
import { workspaceCalls } from '../../protocol/simple-calls.js'
import type { DiffPlan } from '../../requests/workspace.js'
import type { WorkspaceBackend } from '../../sandbox/backend.js'
import { Bytes } from './collected.js'
import { Download } from './download.js'
import { Reconnection } from './reconnection.js'
import { isTransient } from './repeat.js'
import type { Request } from './request.js'
import { withCalls } from './simple-calls.js'

export class HttpWorkspace extends withCalls(workspaceCalls) implements WorkspaceBackend {
  /** A patch that is cut off begins again, if the client's calls survive that. */
  async diff(plan: DiffPlan): Promise<Uint8Array> {
    const body = encodeOptions(workspaceDiffOptions, plan)
    const asked = { method: 'POST', path: '/v1/workspace/diff', body } as const
    const request = { ...asked, signal: plan.signal, subject: workspaceCalls.changes.subject }
    const reconnection = new Reconnection(this.connection)
    for (;;) {
      try {
        return await this.#patch(request)
      } catch (error) {
        if (!this.connection.resumes || !isTransient(error)) throw error
        await reconnection.wait(error, plan.signal ?? new AbortController().signal)
      }
    }
  }

  async #patch(request: Request): Promise<Uint8Array> {
    const download = await Download.begin(this.connection, request)
    try {
      const patch = new Bytes(download.announced)
      for (let piece = await download.read(); piece !== undefined; piece = await download.read())
        patch.add(piece)
      return patch.whole()
    } finally {
      download.close()
    }
  }
}
