/** Serves sandboxes at addresses that the parent names. */
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { serve } from '@nacre/server'
import { Sandbox } from 'nacre'

const directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-pod-host-'))
const pods = new Map()

process.on('disconnect', () => process.exit(1))
process.on('message', async ({ id, start, stop, port, token, secret }) => {
  try {
    if (start !== undefined) {
      const sandbox = new Sandbox({ cwd: directory, env: { SECRET: secret } })
      const options = { host: start, port, token, shutdownTimeout: 100 }
      pods.set(start, { sandbox, serving: await serve(sandbox, options) })
    }
    if (stop !== undefined) {
      const pod = pods.get(stop)
      pods.delete(stop)
      await pod?.serving.close()
      await pod?.sandbox.destroy()
    }
    process.send({ id })
  } catch (error) {
    process.send({ id, error: String(error) })
  }
})
process.on('exit', () => rmSync(directory, { recursive: true, force: true }))
