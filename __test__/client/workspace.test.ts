/** What is special about a copy-on-write workspace of a client: its requests. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { serve } from '@nacre/server'
import type { Sandbox, SandboxError, SandboxOptions } from 'nacre'
import { type ClientOptions, SandboxClient } from 'nacre/client'
import { describe, expect, it, vi } from 'vitest'
import { linesOf } from '../helpers/failing-proxy.js'
import { requestsTo, withServer } from '../helpers/http.js'
import { type ProxiedPlace, withProxy } from '../helpers/proxied-client.js'
import { active } from '../helpers/terminal.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'

/** A client of a server with a workspace. */
function withWorkspace(
  test: (place: ProxiedPlace) => Promise<void>,
  options: Partial<ClientOptions> = {},
  workspace: SandboxOptions['workspace'] = 'copy-on-write',
): Promise<void> {
  return withProxy(test, options, { options: { workspace } })
}

/** Resolves when the server has so many requests besides the question. */
const busy = (url: string, requests: number) =>
  until(
    async () => (await active(url)) === requests + 1 || undefined,
    () => 'the server does not have the request',
  )

const WAIT = 'echo changed > a; until [ -e ../go ]; do sleep 0.01; done'

describe.each([{ resume: false }, { resume: true }])('with resume: $resume', (options) => {
  it.each(['commit', 'discard', 'checkpoint'] as const)(
    'an aborted %s that waits ends on the server too',
    (name) =>
      withWorkspace(async ({ client, sandbox, directory, url }) => {
        const running = sandbox.exec(WAIT)
        const before = await active(url)
        const controller = new AbortController()
        const { signal } = controller
        const ended = rejectionOf(
          name === 'checkpoint' ? client.checkpoint({ signal }) : client.workspace[name]({ signal }),
        )
        await busy(url, before)
        // It waits for the call, which waits for the command.
        const other = sandbox.createSession()
        controller.abort('enough')
        expect(await ended).toMatchObject({
          ...{ name: 'AbortError', cause: 'enough', message: `the ${name} was aborted` },
        })
        expect((await (await other).exec('echo on')).stdout).toBe('on\n')
        await busy(url, 0)
        writeFileSync(path.join(directory, '../go'), '')
        await running
        expect(existsSync(path.join(directory, 'a'))).toBe(false)
        expect(await sandbox.checkpoints()).toEqual([])
        expect(await client.workspace.commit()).toEqual({ applied: 1, skipped: [] })
      }, options),
  )

  it('a commit whose cancellation is lost goes on or not, and does not claim to know', () =>
    withWorkspace(async ({ client, sandbox, directory, url, proxy }) => {
      const controller = new AbortController()
      // The client registers with its first such call.
      expect(await client.workspace.commit({ signal: controller.signal })).toMatchObject({ applied: 0 })
      const running = sandbox.exec(WAIT)
      const ended = rejectionOf(client.workspace.commit({ signal: controller.signal }))
      await busy(url, 1)
      proxy.next.push('cut')
      controller.abort()
      expect(await ended).toMatchObject({ code: 'CONNECTION_FAILED' })
      writeFileSync(path.join(directory, '../go'), '')
      await running
    }, options))
})

describe('a client', () => {
  it('has the paths of a conflict, and repeats what only reads', () =>
    withWorkspace(async ({ client, directory, proxy }) => {
      await client.exec('echo mine > a; echo mine > b')
      writeFileSync(path.join(directory, 'b'), 'theirs\n')
      const refused = (await rejectionOf(client.workspace.commit())) as SandboxError
      expect(refused).toMatchObject({ code: 'WORKSPACE_CONFLICT', paths: ['b'] })
      expect(refused.stack).toContain('workspace.test.ts')
      linesOf(proxy)
      proxy.next.push(503, 'cut')
      expect((await client.workspace.changes()).map(({ path }) => path)).toEqual(['a', 'b'])
      expect(linesOf(proxy)).toEqual(Array(3).fill('POST /v1/workspace/changes'))
      proxy.next.push('lose')
      const point = await client.checkpoint().catch((error) => error)
      expect(point).toMatchObject({ code: 'CONNECTION_FAILED' })
      const [kept] = await client.checkpoints()
      proxy.next.push('lose')
      await client.deleteCheckpoint(kept?.id ?? '')
      expect(await client.checkpoints()).toEqual([])
    }))

  it.each([
    ['lists many changes without one text of all', false, 30_000],
    ['that survives its connections does so too', true, 30_000],
    ['of a server that answers late does so too', false, 1],
  ])('%s', (_, resume, heartbeat) =>
    withWorkspace(async ({ sandbox, directory }) => {
      await sandbox.exec("for ((i = 0; i < 1200; i++)); do echo > f$i; done; echo > $'odd\\xff'")
      const serving = await serve(sandbox, { port: 0, heartbeat })
      const client = new SandboxClient({ url: serving.url, resume })
      const listed = async (by: SandboxClient | Sandbox) =>
        (await by.workspace.changes()).map(({ pathBytes, ...rest }) => ({
          ...rest,
          hex: Buffer.from(pathBytes).toString('hex'),
        }))
      const expected = await listed(sandbox)
      const parse = vi.spyOn(JSON, 'parse')
      const stringify = vi.spyOn(JSON, 'stringify')
      try {
        expect(await listed(client)).toEqual(expected)
        expect(await client.files.list(directory)).toHaveLength(1201)
        const parsed = parse.mock.calls.map(([text]) => text.length)
        const made = stringify.mock.results.map(({ value }) => `${value}`.length)
        expect([parsed.length > 2400, Math.max(...parsed, ...made) < 1000]).toEqual([true, true])
        // Other clients find ordinary JSON.
        const { body } = await requestsTo(serving.url).post('/v1/workspace/changes')
        expect(body.changes).toMatchObject(expected.map(({ path, type }) => ({ path, type })))
      } finally {
        vi.restoreAllMocks()
        await client.destroy()
        await serving.close()
      }
    }),
  )

  it('receives a large patch whole', () =>
    withWorkspace(async ({ client, sandbox }) => {
      await client.exec('head -c 6000000 /dev/urandom > random; head -c 1000000 /dev/urandom | base64 > text')
      const patch = await client.workspace.diff()
      expect(patch.length).toBeGreaterThan(6_000_000)
      expect(Buffer.compare(patch, await sandbox.workspace.diff())).toBe(0)
    }))

  it('begins a patch again that is cut off, with resume', () =>
    withWorkspace(
      async ({ serving, sandbox }) => {
        await sandbox.exec('head -c 2000000 /dev/urandom > random')
        let cuts = 2
        const client = new SandboxClient({
          url: serving.url,
          resume: true,
          async fetch(url, init) {
            const response = await fetch(url, init)
            if (!url.endsWith('/diff') || cuts-- <= 0) return response
            let isFirst = true
            const broken = response.body?.pipeThrough(
              new TransformStream({
                transform(piece, controller) {
                  if (isFirst) controller.enqueue(piece)
                  else controller.error(new Error('cut'))
                  isFirst = false
                },
              }),
            )
            return new Response(broken, response)
          },
        })
        try {
          expect(Buffer.compare(await client.workspace.diff(), await sandbox.workspace.diff())).toBe(0)
          expect(cuts).toBeLessThan(0)
        } finally {
          await client.destroy()
        }
      },
      { resume: true },
    ))

  it('of a client of a server has all of it', () =>
    withWorkspace(async ({ client, directory }) => {
      const serving = await serve(client, { port: 0 })
      const outer = new SandboxClient({ url: serving.url })
      try {
        expect(await outer.workspace.info()).toEqual({ path: directory, id: null })
        const point = await outer.checkpoint({ name: 'before' })
        await outer.exec("echo mine > a; echo new > $'odd\\xff'")
        writeFileSync(path.join(directory, 'a'), 'theirs\n')
        const paths = [Buffer.from('odd\xff', 'latin1')]
        const [change] = await outer.workspace.changes({ paths })
        expect(change).toMatchObject({ path: 'odd\ufffd', type: 'created', size: 4 })
        expect(Buffer.from(change?.pathBytes ?? [])).toEqual(paths[0])
        expect(Buffer.from(await outer.workspace.diff({ paths })).toString()).toContain('+new\n')
        expect(await rejectionOf(outer.workspace.commit())).toMatchObject({ paths: ['a'] })
        expect(await outer.workspace.commit({ paths, sync: false })).toMatchObject({ applied: 1 })
        expect(readFileSync(Buffer.concat([Buffer.from(`${directory}/`), ...paths]), 'utf8')).toBe('new\n')
        expect(await outer.workspace.discard()).toEqual({ discarded: 1 })
        expect(await outer.workspace.usage()).toMatchObject({ layers: expect.any(Number) })
        expect(await outer.workspace.list()).toEqual([])
        expect(await rejectionOf(outer.workspace.delete('none'))).toMatchObject({ code: 'FILE_NOT_FOUND' })
        // The commit has ended it.
        expect(await rejectionOf(outer.rollback(point))).toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' })
        const other = await outer.checkpoint()
        expect(await outer.rollback(other)).toMatchObject({ checkpoint: other })
        expect((await outer.exec('cat a')).stdout).toBe('theirs\n')
      } finally {
        await outer.destroy()
        await serving.close()
      }
    }))
})

describe('undo', () => {
  it('takes back commands of all clients, over HTTP', () =>
    withWorkspace(
      async ({ client, sandbox, post, directory }) => {
        await sandbox.exec('echo 1 > a; x=1')
        await client.exec('echo 2 > a; x=2')
        const running = rejectionOf(client.exec('echo 3 > a; touch ../begun; sleep 1000'))
        const waiting = rejectionOf(client.exec('true'))
        await holds(() => existsSync(path.join(directory, '../begun')))
        expect(await client.undo()).toEqual({
          command: 'echo 3 > a; touch ../begun; sleep 1000',
          endedProcesses: [],
          endedSessions: [],
          missing: [],
        })
        for (const ended of [running, waiting]) expect(await ended).toMatchObject({ code: 'ROLLED_BACK' })
        expect((await post('/v1/undo')).body).toMatchObject({ command: 'echo 2 > a; x=2' })
        expect((await client.exec('cat a; echo $x')).stdout).toBe('1\n1\n')
        await client.undo()
        await client.undo()
        expect(await rejectionOf(client.undo())).toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' })
      },
      {},
      { mode: 'copy-on-write', undoSteps: 5 },
    ))
})

describe('a raw request', () => {
  it('that runs or waits during a rollback has status 410, and its number keeps the reply', () =>
    withWorkspace(async ({ post, call, client, url, directory }) => {
      const { id } = await client.checkpoint()
      const { callerId } = (await post('/v1/callers', { keep: 60_000 })).body
      const numbered = () =>
        call(
          'POST',
          '/v1/exec',
          { command: 'touch ../begun; sleep 1000' },
          { 'x-nacre-call': `${callerId}/1` },
        )
      const running = numbered()
      // Requests on several connections arrive in any order.
      await holds(() => existsSync(path.join(directory, '../begun')))
      const waiting = post('/v1/exec', { command: 'true' })
      const other = post('/api/execute', { command: 'true' })
      await busy(url, 3)
      expect((await post(`/v1/checkpoints/${id}/rollback`)).body.checkpoint.id).toBe(id)
      const body = expect.objectContaining({ code: 'ROLLED_BACK', httpStatus: 410 })
      for (const reply of [await running, await waiting, await numbered()])
        expect(reply).toEqual({ status: 410, body })
      expect(await other).toMatchObject({ status: 500, body: { code: 'COMMAND_EXECUTION_ERROR' } })
      expect((await post('/v1/exec', { command: 'echo on' })).body.result.stdout).toBe('on\n')
    }))

  it('names its faults', () =>
    withWorkspace(async ({ post, get, call }) => {
      const refused = async (route: string, body: unknown) => {
        const reply = await post(`/v1/workspace/${route}`, body)
        return [reply.status, reply.body.code, reply.body.message]
      }
      const rule = 'must be a list of paths, each as text or bytes like {"base64": "/w=="}'
      expect(await refused('changes', { paths: 'a' })).toEqual([400, 'INVALID_OPTION', `paths: ${rule}`])
      for (const base64 of [7, '?'])
        expect((await refused('commit', { paths: [{ base64 }] })).slice(0, 2)).toEqual([
          400,
          'INVALID_OPTION',
        ])
      expect((await refused('diff', { maxBytes: 0 })).slice(0, 2)).toEqual([400, 'INVALID_OPTION'])
      expect((await refused('discard', { paths: ['/etc'] })).slice(0, 2)).toEqual([400, 'INVALID_PATH'])
      expect(await call('DELETE', '/v1/checkpoints/x')).toMatchObject({ status: 404 })
      expect(await call('DELETE', '/v1/workspaces/a%2Fb')).toMatchObject({
        ...{ status: 400, body: { code: 'INVALID_ID' } },
      })
      expect(await get('/v1/workspace')).toMatchObject({ status: 200, body: { id: null } })
    }))

  it('without a workspace has status 409', () =>
    withServer(async ({ get, post }) => {
      const body = { code: 'WORKSPACE_NOT_ENABLED' }
      expect(await get('/v1/workspace')).toMatchObject({ status: 409, body })
      expect(await post('/v1/checkpoints', {})).toMatchObject({ status: 409, body })
      expect(await get('/v1/workspaces')).toEqual({ status: 200, body: { workspaces: [] } })
    }))
})
