/**
 * Runs a command in each of many sandboxes, and prints their outputs as JSON. Runs as the user and on the runtime of a
 * test: `path-runner.mjs MODULE`, with the task as JSON on standard input: { rounds: [{ cwd, isolation, command }] }.
 */
import fs from 'node:fs'

const { Sandbox } = await import(process.argv[2])
const { rounds } = JSON.parse(fs.readFileSync(0, 'utf8'))

const outputs = []
for (const { cwd, isolation, command } of rounds) {
  const sandbox = new Sandbox({ cwd, isolation })
  try {
    const { stdout } = await sandbox.exec(command, { timeout: 60_000 })
    outputs.push(stdout)
  } finally {
    await sandbox.destroy()
  }
}
process.stdout.write(JSON.stringify(outputs))
