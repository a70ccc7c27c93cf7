// A worker in a process of its own. Its options are in a file of JSON, so that its command line does not have the tag of
// its jobs. It prints `ready` and its metrics.
import { readFileSync, writeSync } from 'node:fs'
import { JobWorker } from '@nacre/queue'
import { Sandbox } from 'nacre'

const { root, env, ...options } = JSON.parse(readFileSync(process.argv[2], 'utf8'))
const print = (text) => writeSync(1, `${text}\n`)
const logger = { debug() {}, info: print, warn: print, error: print }
const sandbox = new Sandbox({ cwd: '/tmp', jobsRoot: root, env, forceKillAfterDelay: 500 })
const worker = new JobWorker({ ...options, jobs: sandbox.jobs, logger })
process.on('SIGTERM', async () => {
  await worker.close()
  await sandbox.destroy()
  process.exit(0)
})
process.on('SIGUSR2', () => print(`metrics ${JSON.stringify(worker.metrics())}`))
worker.stopped.catch((error) => {
  print(`stopped ${error.code}`)
  process.exit(3)
})
try {
  await worker.start()
  print('ready')
} catch (error) {
  // SIGTERM came before it had started.
  if (error.code === 'ABORT_ERR') await new Promise(() => {})
  print(`failed ${error.code} ${error.message}`)
  process.exit(4)
}
