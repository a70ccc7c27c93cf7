/** A notebook kernel: cells run one after another in a bash session and share its state. */
export class Kernel {
  #sandbox
  #session
  #running = null
  #count = 0

  static async start(sandbox) {
    const kernel = new Kernel()
    kernel.#sandbox = sandbox
    kernel.#session = await sandbox.createSession()
    return kernel
  }

  /**
   * Runs a cell. Yields `{ type: 'stream', name, text }` while it runs, then `{ type: 'result', ... }`. Breaking out of the
   * loop kills the cell.
   */
  async *execute(code) {
    const number = ++this.#count
    const run = this.#session.execStream(code)
    this.#running = run
    try {
      for await (const event of run) {
        if (event.type === 'stdout' || event.type === 'stderr') {
          yield { type: 'stream', name: event.type, text: event.data }
        } else if (event.type === 'complete') {
          yield { type: 'result', number, status: statusOf(event.result), directory: event.result.cwd }
        } else if (event.type === 'error') {
          yield { type: 'result', number, status: `error: ${event.error.message}`, directory: null }
        }
      }
    } finally {
      if (this.#running === run) this.#running = null
    }
  }

  /** Interrupts the running cell, like Ctrl-C. Variables persist. Resolves when all of the cell's processes have exited. */
  async interrupt() {
    await this.#running?.kill('SIGINT')
  }

  /** Destroys the session and everything in it, and starts a fresh session. */
  async restart() {
    await this.#sandbox.deleteSession(this.#session.id)
    this.#session = await this.#sandbox.createSession()
    this.#count = 0
  }
}

function statusOf({ exitCode, signal, cancelled }) {
  if (cancelled) return 'interrupted'
  return exitCode === 0 ? 'ok' : (signal ?? `exit code ${exitCode}`)
}
