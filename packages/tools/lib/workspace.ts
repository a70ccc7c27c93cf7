/** The tool `workspace`: what the programs have changed, and ways back. */
import { clock } from 'nacre/internal'
import type { Inputs, WorkspaceAction } from './definitions.js'
import { toPlainText } from './plain.js'
import type { ToolReply } from './public.js'
import { bodyOf, reply } from './reply.js'
import { ToolError } from './schema.js'
import type { Host, Scope } from './scope.js'
import { formatCount } from './shorten.js'

type Input = Inputs['workspace']

/** What an action has found: the fields of the header, and lines. */
interface Found {
  header: (string | undefined)[]
  text?: string
  next?: string[]
  checkpoint?: string
}

/** What an action is limited by. */
interface Limits {
  paths?: string[]
  signal: AbortSignal
}

const WHOLE = { start: false, end: false }

export async function useWorkspace(
  host: Host,
  scope: Scope,
  input: Input,
  tokens: number,
  until: number,
  cancel: AbortSignal | undefined,
): Promise<ToolReply> {
  const late = AbortSignal.timeout(Math.max(0, Math.round(until - clock.performance.now())))
  const signal = cancel === undefined ? late : AbortSignal.any([cancel, late])
  const paths = input.path === undefined ? {} : { paths: [input.path] }
  try {
    const found = await ACTIONS[input.action](host, scope, input, { ...paths, signal })
    const body = bodyOf(host.style, { head: found.text ?? '', tail: '', missing: 0 }, tokens, WHOLE)
    const omission = body.missing > 0 ? `${formatCount(body.missing)} characters left out` : undefined
    const data = found.checkpoint === undefined ? {} : { checkpoint: found.checkpoint }
    return reply(host.style, { header: [...found.header, omission], body, next: found.next ?? [], data })
  } catch (error) {
    if (late.aborted && (error as Error).name === 'AbortError')
      throw new ToolError('A command still runs. Wait for it, or kill it.', 'WORKSPACE_BUSY')
    throw error
  }
}

type Action = (host: Host, scope: Scope, input: Input, limits: Limits) => Promise<Found>

const ACTIONS: Record<WorkspaceAction, Action> = {
  async changes({ sandbox }, _scope, _input, limits) {
    const changes = await sandbox.workspace.changes(limits)
    const rows = changes.map(({ type, kind, path, size }) =>
      kind === 'file'
        ? `${type} ${nameOf(path)} (${formatCount(size)} bytes)`
        : `${type} ${kind} ${nameOf(path)}`,
    )
    const { id } = await sandbox.workspace.info()
    const name = id === null ? undefined : `workspace ${id}`
    return { header: [`changes: ${formatCount(changes.length)}`, name], text: rows.join('\n') }
  },

  async diff({ sandbox }, _scope, _input, limits) {
    const patch = new TextDecoder().decode(await sandbox.workspace.diff(limits))
    return { header: [patch === '' ? 'diff: no changes' : 'diff'], text: patch }
  },

  async checkpoint({ sandbox }, _scope, _input, { signal }) {
    const { id } = await sandbox.checkpoint({ signal })
    return {
      header: [`checkpoint ${id}`],
      next: [`use workspace {"action":"rollback","checkpoint":"${id}"} to return to it`],
      checkpoint: id,
    }
  },

  async rollback({ sandbox }, scope, { checkpoint }) {
    const known = (await sandbox.checkpoints()).map(({ id }) => id)
    if (checkpoint === undefined || !known.includes(checkpoint))
      throw new ToolError(
        `The argument "checkpoint" must be the id of a checkpoint. Checkpoints: ${known.join(', ') || 'none'}.`,
        'CHECKPOINT_NOT_FOUND',
      )
    const { endedSessions, missing } = await sandbox.rollback(checkpoint)
    scope.forget(endedSessions)
    return {
      header: [`rolled back to ${checkpoint}`, ...endedFields(endedSessions)],
      text: missing.join('\n'),
    }
  },

  async undo({ sandbox }, scope) {
    const { command, endedSessions, missing } = await sandbox.undo()
    scope.forget(endedSessions)
    return { header: [`undone: ${command}`, ...endedFields(endedSessions)], text: missing.join('\n') }
  },

  async commit({ sandbox }, _scope, _input, limits) {
    const { applied, skipped } = await sandbox.workspace.commit(limits)
    const rows = skipped.map(({ path, reason }) => `skipped ${nameOf(path)}: ${reason}`)
    return { header: [`committed: ${formatCount(applied)}`], text: rows.join('\n') }
  },
}

/** A name on one line. */
function nameOf(path: string): string {
  return toPlainText(path).replaceAll('\n', ' ')
}

function endedFields(sessions: string[]): string[] {
  return sessions.length === 0 ? [] : [`sessions ended: ${sessions.join(', ')}`]
}
