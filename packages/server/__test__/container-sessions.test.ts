/** Sessions and variables as clients of a sandbox container know them. */
import { describe, expect, it } from 'vitest'
import { withServer } from '../../../__test__/helpers/http.js'

const isoTime = expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)

/** An error envelope, whole. */
const failure = (httpStatus: number, code: string) => ({
  status: httpStatus,
  body: {
    code,
    httpStatus,
    message: expect.stringMatching(/./),
    context: expect.any(Object),
    timestamp: isoTime,
  },
})

describe('sessions of the container', () => {
  it('are created, listed, used and deleted', () =>
    withServer(async ({ post, get, directory }) => {
      const env = { KEY: 'a b', GONE: null }
      expect(await post('/api/session/create', { id: 'one', env, cwd: directory })).toEqual({
        status: 200,
        body: { success: true, data: { id: 'one' }, timestamp: isoTime },
      })
      const list = await get('/api/session/list')
      expect(list.body).toEqual({ success: true, data: ['default', 'one'], timestamp: isoTime })
      const run = await post('/api/execute', { command: 'printf "$KEY"', sessionId: 'one' })
      expect(run.body).toMatchObject({ stdout: 'a b', sessionId: 'one' })
      const deleted = { success: true, sessionId: 'one', timestamp: isoTime }
      expect(await post('/api/session/delete', { sessionId: 'one' })).toEqual({ status: 200, body: deleted })
      expect(await post('/api/session/delete', { sessionId: 'one' })).toEqual(
        failure(404, 'SESSION_NOT_FOUND'),
      )
    }))

  it('refuse duplicates, bad ids and bodies with missing keys', () =>
    withServer(async ({ post }) => {
      await post('/api/session/create', { id: 'one' })
      const duplicate = await post('/api/session/create', { id: 'one' })
      expect(duplicate).toEqual(failure(409, 'SESSION_ALREADY_EXISTS'))
      for (const id of ['../../x', '', 'a/b', 'x'.repeat(200), 'a\0b', 5])
        expect(await post('/api/session/create', { id })).toEqual(failure(400, 'VALIDATION_FAILED'))
      const missing = await post('/api/session/delete', {})
      expect(missing).toEqual(failure(400, 'VALIDATION_FAILED'))
      expect(missing.body.message).toContain('sessionId')
    }))

  it('begin at home when their directory is missing, and have a timeout of their own', () =>
    withServer(async ({ post }) => {
      await post('/api/session/create', { id: 'one', cwd: '/proc/does/not/exist', commandTimeoutMs: 100 })
      const home = { command: 'pwd; echo ~', sessionId: 'one', timeoutMs: 20_000 }
      expect((await post('/api/execute', home)).body.stdout).toMatch(/^(.*)\n\1\n$/)
      const late = await post('/api/execute', { command: 'sleep 60', sessionId: 'one' })
      expect(late).toEqual(failure(408, 'COMMAND_TIMEOUT'))
      const longer = { command: 'sleep 0.2; echo done', sessionId: 'one', timeoutMs: 20_000 }
      expect((await post('/api/execute', longer)).body.stdout).toBe('done\n')
    }))

  it('have variables, which null unsets', () =>
    withServer(async ({ post }) => {
      const show = async () => (await post('/api/execute', { command: 'echo "[$A|$B]"' })).body.stdout
      const set = await post('/api/env/set', { envVars: { A: '1', B: '$(x) "' } })
      expect(set).toEqual({ status: 200, body: { success: true, timestamp: isoTime } })
      expect(await show()).toBe('[1|$(x) "]\n')
      await post('/api/env/set', { envVars: { A: null }, sessionId: 'default' })
      expect(await show()).toBe('[|$(x) "]\n')
      for (const envVars of [{ 'A-B': 'x' }, { A: 'a\0b' }, { A: 5 }, 'x'])
        expect(await post('/api/env/set', { envVars })).toEqual(failure(400, 'VALIDATION_FAILED'))
      const elsewhere = await post('/api/env/set', { envVars: { A: 'x' }, sessionId: 'nowhere' })
      expect(elsewhere).toEqual(failure(404, 'SESSION_NOT_FOUND'))
    }))
})
