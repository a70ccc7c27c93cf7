/** A client's streams of processes and jobs have neither gap nor duplicate, whatever becomes of connection and server. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { startHost } from '../helpers/host.js'
import { withServer } from '../helpers/http.js'
import { freePort } from '../helpers/serving.js'
import { cuttingProxy } from '../helpers/tcp-proxy.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

/** Lines of 3 MB. */
const COUNT = 200_000

const lines = (count: number) => Array.from({ length: count }, (_, index) => `line ${index} ä\n`).join('')

describe('a connection that is cut', () => {
  it('is made anew by the stream of a process', () =>
    withServer(async ({ serving, directory }) => {
      const proxy = await cuttingProxy(serving.port, 5000, 5)
      const client = new SandboxClient({ url: proxy.url })
      const direct = new SandboxClient({ url: serving.url })
      try {
        // It goes on when it is read, and then prints more than comes in the one piece that a cut lets through.
        const gate = path.join(directory, 'gate')
        const process = await direct.startProcess(
          `for ((i = 0; i < 100; i++)); do echo "line $i ä"; done
            until [ -e ${gate} ]; do sleep 0.01; done
            seq -f 'line %.0f ä' 100 ${COUNT - 1}`,
        )
        let text = ''
        for await (const event of client.streamProcessLogs(process.id)) {
          if (event.type !== 'stdout') continue
          text += event.data
          writeFileSync(gate, '')
        }
        expect(text === lines(COUNT)).toBe(true)
        expect(proxy.cuts()).toBeGreaterThan(1)
      } finally {
        await client.destroy()
        await direct.destroy()
        await proxy.close()
      }
    }))

  it('is the end of a command, which is killed', () =>
    withServer(async ({ serving, sandbox }) => {
      const proxy = await cuttingProxy(serving.port, 1000, 1)
      const client = new SandboxClient({ url: proxy.url })
      try {
        const run = client.execStream('for ((i = 0; i < 1000; i++)); do echo $i; done; sleep 64')
        const events = run[Symbol.asyncIterator]()
        for (let step = await events.next(); !step.done; step = await events.next());
        expect(await rejectionOf(run.result)).toMatchObject({ code: 'CONNECTION_FAILED' })
        expect((await sandbox.exec('echo free', { timeout: 10_000 })).stdout).toBe('free\n')
      } finally {
        await client.destroy()
        await proxy.close()
      }
    }))
})

describe('a server that is killed and started anew', () => {
  it('is resumed by readers that follow a job', async () => {
    const base = temporary('nacre-restart-')
    const port = await freePort()
    const program = `
      const sandbox = new Sandbox({ cwd: '/tmp', jobsRoot: '${base}/jobs', stateDir: '${base}/state' })
      require('@nacre/server').serve(sandbox, { port: ${port} }).then(() => print('listens'))
    `
    const sandbox = new Sandbox({ jobsRoot: `${base}/jobs`, stateDir: `${base}/own` })
    const client = new SandboxClient({ url: `http://127.0.0.1:${port}` })
    let host = startHost(program)
    try {
      await host.printed('listens')
      const gate = path.join(base, 'gate')
      const job = await client.jobs.start({
        command: `for ((i = 0; i < 1000; i++)); do echo "line $i ä"; done
          until [ -e ${gate} ]; do sleep 0.01; done
          for ((i = 1000; i < 2000; i++)); do echo "line $i ä"; done`,
      })
      let text = ''
      const reading = (async () => {
        for await (const { raw } of client.jobs.follow(job)) text += raw
      })()
      await until(
        () => text.length === lines(1000).length || undefined,
        () => `${text.length} characters`,
      )
      host.child.kill('SIGKILL')
      expect(await host.ended()).toBe('SIGKILL')
      expect(await rejectionOf(client.exec('true'))).toMatchObject({ code: 'CONNECTION_FAILED' })
      await sandbox.exec(['touch', gate])
      host = startHost(program)
      await reading
      expect(text === lines(2000)).toBe(true)
    } finally {
      await client.destroy()
      host.child.kill('SIGTERM')
      expect(await host.ended()).toBe('SIGTERM')
      await sandbox.destroy()
    }
  })
})
