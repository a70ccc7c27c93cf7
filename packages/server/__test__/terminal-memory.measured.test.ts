/** What a server holds for terminals whose clients do not read. */
import type { Socket } from 'node:net'
import { it } from 'vitest'
import { startHost } from '../../../__test__/helpers/host.js'
import type { Body } from '../../../__test__/helpers/http.js'
import { collecting } from '../../../__test__/helpers/memory.js'
import * as proc from '../../../__test__/helpers/proc.js'
import { rawClient } from '../../../__test__/helpers/terminal.js'
import { until } from '../../../__test__/helpers/until.js'

it('a server holds little memory for terminals whose clients do not read', async () => {
  const connections = 12
  const host = startHost(`
      ${collecting}
      const { serve } = require('@nacre/server')
      const sandbox = new Sandbox({ cwd: '/tmp' })
      const main = async () => {
        const pty = { cols: 80, rows: 24 }
        const command = 'stty -opost; seq -f %015.0f 3000000'
        await sandbox.startProcess(command, { processId: 'loud', pty, logLimit: 8 * 1024 * 1024 })
        const { port } = await serve(sandbox, { port: 0 })
        collect()
        setInterval(collect, 500)
        print('port ' + port + '.')
      }
      main()
    `)
  const clients: Socket[] = []
  try {
    await host.printed('.\n')
    const port = Number(/port (\d+)\./.exec(host.output())?.[1])
    const before = proc.statusNumber('VmRSS', host.pid)
    for (let index = 0; index < connections; index++)
      clients.push(await rawClient(port, '/v1/processes/loud/terminal'))
    const url = `http://127.0.0.1:${port}`
    // It prints 48 MB. For 12 clients that would be 576 MB.
    await until(
      async () => {
        const { status } = (await (await fetch(`${url}/v1/processes/loud`)).json()) as Body
        return status !== 'running' || undefined
      },
      () => 'the process runs on',
      60_000,
    )
    const grown = () => (proc.statusNumber('VmRSS', host.pid) - before) / 1024
    await until(
      () => grown() < connections * 4 || undefined,
      () => `${connections} clients that do not read hold ${grown()} MB`,
    )
  } finally {
    for (const client of clients) client.destroy()
    host.child.kill('SIGKILL')
    await host.ended()
  }
}, 120_000)
