/** The minimum cost of a persistent shell: one bash that reads a line from a pipe, evaluates it, and prints a mark. */
import { spawn } from 'node:child_process'

export const name = 'bare bash behind a pipe'

export async function open() {
  const loop = 'while IFS= read -r line; do eval "$line"; printf "\\1"; done'
  const bash = spawn('bash', ['--norc', '-c', loop], { stdio: ['pipe', 'pipe', 'inherit'] })
  /** @type {(value?: unknown) => void} */
  let answered = () => {}
  bash.stdout.on('data', (bytes) => {
    if (bytes.at(-1) === 1) answered()
  })
  return {
    run: (command) =>
      new Promise((resolve) => {
        answered = resolve
        bash.stdin.write(`${command}\n`)
      }),
    close: async () => {
      const ended = new Promise((resolve) => bash.once('close', resolve))
      bash.stdin.end()
      await ended
    },
  }
}
