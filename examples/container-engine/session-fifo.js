/** Before the swap: a bash that reads commands from a pipe and leaves output and exit codes in files. */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { SessionDestroyedError, ShellTerminatedError } from './errors.js'

const POLL_MS = 20

export class Session {
  #options
  #directory
  #shell
  #count = 0
  #destroyed = false

  constructor(options) {
    this.#options = options
  }

  async initialize() {
    this.#directory = mkdtempSync(path.join(os.tmpdir(), 'fifo-session-'))
    const { cwd } = this.#options
    this.#shell = spawn('bash', ['--norc'], { cwd, stdio: ['pipe', 'ignore', 'ignore'], detached: true })
  }

  async exec(command, { timeoutMs = this.#options.commandTimeoutMs ?? 0 } = {}) {
    const base = path.join(this.#directory, String(++this.#count))
    const begun = performance.now()
    this.#shell.stdin.write(
      `{ ${command}\n} </dev/null >${base}.out 2>${base}.err; echo $? >${base}.tmp; mv ${base}.tmp ${base}.exit\n`,
    )
    for (;;) {
      const exitCode = read(`${base}.exit`)
      if (exitCode !== null) {
        return {
          stdout: read(`${base}.out`).replace(/\n$/, ''),
          stderr: read(`${base}.err`).replace(/\n$/, ''),
          exitCode: Number(exitCode),
          command,
          duration: performance.now() - begun,
          timestamp: new Date().toISOString(),
        }
      }
      const { id } = this.#options
      if (this.#destroyed) throw new SessionDestroyedError(id)
      if (this.#shell.exitCode !== null) throw new ShellTerminatedError(id, this.#shell.exitCode)
      // The command is not killed: the engine has no way to find its processes.
      if (timeoutMs > 0 && performance.now() - begun > timeoutMs)
        throw new Error(`Command timeout after ${timeoutMs}ms`)
      await sleep(POLL_MS)
    }
  }

  isReady() {
    return !this.#destroyed && this.#shell?.exitCode === null
  }

  async destroy() {
    this.#destroyed = true
    try {
      process.kill(-this.#shell.pid, 'SIGKILL')
    } catch {} // The group has ended.
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

function read(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return null
  }
}
