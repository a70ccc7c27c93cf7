/** The copy-on-write workspace of the server's sandbox. */

import type { Change, Commit, NamedWorkspace, WorkspaceUsage } from '../../calls/index.js'
import {
  workspaceChangesOptions,
  workspaceCommitOptions,
  workspaceDiffOptions,
  workspaceDiscardOptions,
} from '../../calls/workspace.js'
import { encodeOptions } from '../../protocol/codec.js'
import * as endpoints from '../../protocol/endpoints.js'
import type { ChangesPlan, CommitPlan, DiffPlan } from '../../requests/workspace.js'
import type { WorkspaceBackend } from '../../sandbox/backend.js'
import { Bytes } from './collected.js'
import type { Connection } from './connection.js'
import { Download } from './download.js'
import { Reconnection } from './reconnection.js'
import { isTransient } from './repeat.js'
import type { Request } from './request.js'

const WHOLE = { start: 0, end: Number.POSITIVE_INFINITY }
const COMPARISON = 'the comparison'

export class HttpWorkspace implements WorkspaceBackend {
  readonly #connection: Connection

  constructor(connection: Connection) {
    this.#connection = connection
  }

  info(): Promise<{ path: string; id: string | null }> {
    return this.#connection.call(endpoints.workspaceInfo)
  }

  async changes(plan: ChangesPlan): Promise<Change[]> {
    const body = encodeOptions(workspaceChangesOptions, plan)
    const request = { body, signal: plan.signal, subject: COMPARISON, isIdempotent: true }
    return (await this.#connection.call(endpoints.workspaceChanges, request)).changes
  }

  /** A patch that is cut off begins again, if the client's calls survive that. */
  async diff(plan: DiffPlan): Promise<Uint8Array> {
    const body = encodeOptions(workspaceDiffOptions, plan)
    const asked = { method: 'POST', path: '/v1/workspace/diff', body } as const
    const request = { ...asked, signal: plan.signal, subject: COMPARISON }
    const reconnection = new Reconnection(this.#connection)
    for (;;) {
      try {
        return await this.#patch(request)
      } catch (error) {
        if (!this.#connection.resumes || !isTransient(error)) throw error
        await reconnection.wait(error, plan.signal ?? new AbortController().signal)
      }
    }
  }

  async #patch(request: Request): Promise<Uint8Array> {
    const download = await Download.begin(this.#connection, request, WHOLE)
    try {
      const patch = new Bytes(download.announced)
      for (let piece = await download.read(); piece !== undefined; piece = await download.read())
        patch.add(piece)
      return patch.whole()
    } finally {
      download.close()
    }
  }

  commit(plan: CommitPlan): Promise<Commit> {
    const body = encodeOptions(workspaceCommitOptions, plan)
    return this.#connection.call(endpoints.commit, { body, cancel: plan.signal, subject: 'the commit' })
  }

  discard(plan: ChangesPlan): Promise<{ discarded: number }> {
    const body = encodeOptions(workspaceDiscardOptions, plan)
    return this.#connection.call(endpoints.discard, { body, cancel: plan.signal, subject: 'the discard' })
  }

  usage(): Promise<WorkspaceUsage> {
    return this.#connection.call(endpoints.workspaceUsage)
  }

  async list(): Promise<NamedWorkspace[]> {
    return (await this.#connection.call(endpoints.listWorkspaces)).workspaces
  }

  async delete(id: string): Promise<void> {
    await this.#connection.call(endpoints.deleteWorkspace, { params: { workspaceId: id } })
  }
}
