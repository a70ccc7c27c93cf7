/** `resume`: calls of a client survive broken connections, and are performed once. */
import { existsSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { withServer } from '../helpers/http.js'
import { cuttingProxy } from '../helpers/tcp-proxy.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'

const token = 'a-token-of-the-tests'

describe('a client that resumes calls', () => {
  it('gets all output of a command that runs once, through connections that break', () =>
    withServer(
      async ({ serving }) => {
        const proxy = await cuttingProxy(serving.port, 100_000, 25)
        const client = new SandboxClient({
          url: proxy.url,
          token,
          tokenHeader: 'x-nacre-token',
          resume: true,
        })
        const stream = client.execStream('cat >> runs; seq 200000', { input: 'run\n' })
        let text = ''
        for await (const event of stream) if (event.type === 'stdout') text += event.data
        expect(text).toBe(Array.from({ length: 200_000 }, (_, index) => `${index + 1}\n`).join(''))
        expect(proxy.cuts()).toBeGreaterThan(10)
        expect((await client.exec('cat runs')).stdout).toBe('run\n')
        await client.destroy()
        await proxy.close()
      },
      { token },
    ))

  it('has the events of commands that end at once', () =>
    withServer(async ({ url }) => {
      const client = new SandboxClient({ url, resume: true })
      await client.exec('true')
      for (let round = 0; round < 200; round++) {
        const types: string[] = []
        for await (const { type } of client.execStream('echo x')) types.push(type)
        expect(types).toEqual(['start', 'stdout', 'complete'])
      }
      await client.destroy()
    }))

  it('ends its commands when it is destroyed', () =>
    withServer(async ({ url, directory, post }) => {
      const client = new SandboxClient({ url, resume: true })
      const running = rejectionOf(client.exec('touch begun; sleep 60; touch end'))
      await holds(() => existsSync(path.join(directory, 'begun')))
      await client.destroy()
      expect(await running).toMatchObject({ code: 'SANDBOX_DESTROYED' })
      // The session is free again.
      expect((await post('/v1/exec', { command: 'echo ok' })).body.result.stdout).toBe('ok\n')
    }))

  it('ends a command when its signal is aborted', () =>
    withServer(async ({ url, post }) => {
      const client = new SandboxClient({ url, resume: true })
      const abort = new AbortController()
      const running = rejectionOf(
        client.exec('sleep 60', { signal: abort.signal, onStart: () => abort.abort(new Error('enough')) }),
      )
      expect(await running).toMatchObject({ name: 'AbortError', cause: new Error('enough') })
      expect((await post('/v1/exec', { command: 'echo ok' })).body.result.stdout).toBe('ok\n')
      await client.destroy()
    }))

  it('refuses a call whose signal is aborted already, without asking the server', async () => {
    let requests = 0
    const client = new SandboxClient({
      ...{ url: 'http://127.0.0.1:1', resume: true },
      fetch: () => {
        requests++
        return Promise.reject(new TypeError('there is no server'))
      },
    })
    const signal = AbortSignal.abort('no')
    const { files } = client
    for (const call of [
      () => client.exec('true', { signal }),
      () => client.startService('true', { healthCheck: { log: 'x' }, signal }),
      () => files.read('x', { signal }),
      () => files.write('x', 'y', { signal }),
      () => client.jobs.wait('job', { signal }),
    ])
      expect(await rejectionOf(call())).toMatchObject({ name: 'AbortError', cause: 'no' })
    expect(requests).toBe(0)
  })

  it('does not cut a call when the server refuses to say that it is there', () =>
    withServer(async ({ url, directory }) => {
      let refused = 0
      let sent = 0
      const client = new SandboxClient({
        ...{ url, resume: true, reconnectTimeout: 1 },
        fetch: (input, init) => {
          const { pathname } = new URL(String(input))
          if (pathname === '/v1/exec') sent++
          if (pathname !== '/healthz') return fetch(input, init)
          refused++
          const refusal = { code: 'OVERLOADED', message: 'too many', context: {}, httpStatus: 503 }
          return Promise.resolve(Response.json(refusal, { status: 503 }))
        },
      })
      const running = client.exec('until [ -e go ]; do sleep 0.01; done; echo done')
      await until(
        () => refused === 2 || undefined,
        () => `asked ${refused} times`,
      )
      writeFileSync(path.join(directory, 'go'), '')
      expect((await running).stdout).toBe('done\n')
      expect(sent).toBe(1)
      await client.destroy()
    }))

  it('registers again with a server that does not know it any more', () =>
    withServer(async ({ url }) => {
      // The first number belongs to a caller that the server does not know, as after its restart.
      const forgetful = new SandboxClient({
        ...{ url, resume: true },
        fetch: (input, init) => {
          const headers = new Headers(init?.headers)
          if (headers.get('x-nacre-call')?.endsWith('/1'))
            headers.set('x-nacre-call', `${crypto.randomUUID()}/1`)
          return fetch(input, { ...init, headers })
        },
      })
      expect((await forgetful.exec('echo run')).stdout).toBe('run\n')
      await forgetful.destroy()
    }))
})
