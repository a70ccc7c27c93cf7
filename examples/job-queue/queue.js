/**
 * A queue in a directory. `waiting/` has a file for each job that has not started. nacre has a durable job with the same id
 * for each job that has. The queue keeps no other state, so the worker can be killed at any moment.
 */
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { Sandbox } from 'nacre'

/** Characters that are safe in a file name and in a job id. */
const NAME = /^[A-Za-z0-9_-]{1,64}$/

export class Queue {
  #waiting
  #jobs

  static async open(directory) {
    const queue = new Queue()
    queue.#waiting = path.resolve(directory, 'waiting')
    await mkdir(queue.#waiting, { recursive: true })
    // `jobs` needs no session: nothing starts before a job does.
    queue.#jobs = new Sandbox({ jobsRoot: path.resolve(directory, 'jobs') }).jobs
    return queue
  }

  /** Adds a job at the end. Renaming makes the file visible only once it is complete. */
  async add(name, command) {
    if (!NAME.test(name)) throw new Error(`'${name}' is not a name: use 1 to 64 of A-Z a-z 0-9 _ -`)
    const file = path.join(this.#waiting, `${Date.now()}.${name}`)
    await writeFile(`${file}.tmp`, JSON.stringify({ command }))
    await rename(`${file}.tmp`, file)
  }

  /** Runs jobs, at most `concurrency` at a time, until none is waiting or running. */
  async work(concurrency, report) {
    const running = new Map()
    const watch = (name) => {
      const ended = this.#jobs.wait(name).then((status) => {
        running.delete(name)
        report(`${name} ended: ${describe(status)}`)
      })
      running.set(name, ended)
    }
    // Jobs that an earlier worker started and that are still running.
    for (const { jobId } of await this.#jobs.list({ state: 'running' })) {
      report(`${jobId} is already running`)
      watch(jobId)
    }
    for (;;) {
      const next = running.size < concurrency ? (await this.#files())[0] : undefined
      if (next !== undefined) {
        if (await this.#start(next)) {
          report(`${next.name} started`)
          watch(next.name)
        }
      } else if (running.size > 0) {
        await Promise.race(running.values())
      } else {
        return
      }
    }
  }

  /** Starts a waiting job. False if a worker started it earlier, and was killed before it removed the file. */
  async #start({ file, name }) {
    const { command } = JSON.parse(await readFile(file, 'utf8'))
    const started = await this.#jobs.start({ jobId: name, command }).then(
      () => true,
      (error) => {
        if (error.code !== 'JOB_ALREADY_EXISTS') throw error
        return false
      },
    )
    await rm(file)
    return started
  }

  /** Lists all jobs: started jobs in order, then waiting jobs. */
  async list() {
    const started = (await this.#jobs.list()).map(({ jobId, status }) => ({
      name: jobId,
      state: describe(status),
    }))
    const waiting = (await this.#files()).map(({ name }) => ({ name, state: 'waiting' }))
    return [...started, ...waiting.filter(({ name }) => started.every((job) => job.name !== name))]
  }

  async printLog(name, output) {
    for await (const { raw } of this.#jobs.follow(name)) output.write(raw)
  }

  /** The files of waiting jobs, oldest first. */
  async #files() {
    const names = (await readdir(this.#waiting)).filter((file) => !file.endsWith('.tmp')).sort()
    return names.map((file) => ({
      file: path.join(this.#waiting, file),
      name: file.slice(file.indexOf('.') + 1),
    }))
  }
}

function describe({ state, exitCode, signal }) {
  return state === 'exited' ? (signal ?? `exit code ${exitCode}`) : state
}
