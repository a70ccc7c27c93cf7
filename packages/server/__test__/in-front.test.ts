/** A server in front of a client of another server: what it serves runs on that one. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { serve } from '@nacre/server'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { withClient } from '../../../__test__/contract/helper.js'
import { withSandbox } from '../../../__test__/helpers/invariants.js'
import { holds } from '../../../__test__/helpers/until.js'

/** Runs a test with a client of a server in front of a server of this sandbox. */
function withFront(test: (client: SandboxClient, url: string, directory: string) => Promise<void>) {
  return withSandbox((workplace) =>
    withClient(workplace, async (inner) => {
      await using front = await serve(inner, { port: 0 })
      const client = new SandboxClient({ url: front.url })
      try {
        await test(client, front.url, workplace.directory)
      } finally {
        await client.destroy()
      }
    }),
  )
}

describe('a server in front of a client', () => {
  it('passes on commands, with every byte of their output and errors as they are', () =>
    withFront(async (client) => {
      await client.exec('cd /tmp && there=1')
      expect(await client.exec('echo $PWD $there')).toMatchObject({ stdout: '/tmp 1\n', exitCode: 0 })
      const stream = client.execStream("printf '\\377\\0'; printf err >&2", { encoding: 'buffer' })
      const stdout: number[] = []
      for await (const event of stream) if (event.type === 'stdout') stdout.push(...event.data)
      expect(stdout).toEqual([255, 0])
      expect(await stream.result).toMatchObject({ stderr: new TextEncoder().encode('err') })
      // More than the bound of a stream's result.
      let lines = 0
      const onLine = () => lines++
      const { stdout: text, truncated } = await client.exec('yes nacre | head -n 300000', { onLine })
      expect([text.length, truncated, lines]).toEqual([1_800_000, null, 300_000])
      await expect(client.exec('x', { sessionId: 'none' })).rejects.toMatchObject({
        code: 'SESSION_NOT_FOUND',
      })
      await expect(client.exec('false', { check: true })).rejects.toMatchObject({ code: 'COMMAND_FAILED' })
    }))

  it('passes on processes and services, their input, output, restarts and ends', () =>
    withFront(async (client, url) => {
      const process = await client.startProcess('read line; echo "got $line"; exit 3', { input: 'pipe' })
      await process.write('text\n')
      expect(await process.waitForExit()).toMatchObject({ exitCode: 3 })
      expect((await process.getLogs()).stdout).toBe('got text\n')
      const closed = await client.startProcess('sleep 60')
      await expect(closed.write('x')).rejects.toThrow('write needs a process that was started with input')
      const terminal = await client.startProcess('stty size; read line', { pty: { cols: 90, rows: 30 } })
      expect((await terminal.waitForLog('30 90')).line).toBe('30 90')
      expect(await terminal.resize(80, 24)).toBe(true)
      await terminal.write('\n')
      expect(await terminal.waitForExit()).toMatchObject({ exitCode: 0 })
      const service = await client.startService('echo ready; sleep 60', { healthCheck: { log: 'ready' } })
      const { pid } = service
      await service.restart()
      expect(service.pid).not.toBe(pid)
      expect(await service.getHealth()).toMatchObject({ healthy: true })
      expect(await client.killAllProcesses()).toBe(2)
      const metrics = async () => (await fetch(`${url}/metrics`)).text()
      await holds(async () => (await metrics()).includes('nacre_processes_ended_total{reason="killed"} 2'))
    }))

  it('passes on files, sessions and jobs', () =>
    withFront(async (client, url, directory) => {
      await client.files.write('file', 'content')
      expect(readFileSync(path.join(directory, 'file'), 'utf8')).toBe('content')
      expect(await client.files.read('file')).toBe('content')
      const missing = await fetch(`${url}/v1/sessions/default/files/content?path=none`)
      expect(missing.status).toBe(404)
      expect((await client.files.list()).map(({ name }) => name)).toContain('file')
      const session = await client.createSession({ id: 'one', env: { A: 'b' } })
      expect((await session.exec('echo $A')).stdout).toBe('b\n')
      expect((await client.listSessions()).map(({ id }) => id)).toContain('one')
      expect((await session.history()).map(({ command }) => command)).toEqual(['echo $A'])
      const job = await client.jobs.start({ command: 'echo job' })
      expect(await client.jobs.wait(job)).toMatchObject({ exitCode: 0 })
      expect((await client.jobs.read(job)).raw).toBe('job\n')
      expect((await client.capabilities()).engine).toBe('builtin')
    }))
})
