/**
 * Runs commands of tools, each in a sandbox and a project of its own, and prints the results as JSON. Runs as the user of a test:
 * `tools-runner.mjs MODULE`, with the task as JSON on standard input: { tools, isolation, env }.
 */
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'

const { Sandbox } = await import(process.argv[2])
const { tools, isolation, env } = JSON.parse(fs.readFileSync(0, 'utf8'))

// Not below /tmp, which is private to a session.
const base = fs.mkdtempSync('/var/tmp/nacre-tools-')
const at = (...names) => path.join(base, ...names)
fs.mkdirSync(at('home'))

const results = {}
for (const { name, files, command } of tools) {
  fs.mkdirSync(at(name))
  for (const [file, text] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(at(name, file)), { recursive: true })
    fs.writeFileSync(at(name, file), text)
  }
  const sandbox = new Sandbox({
    cwd: at(name),
    stateDir: at('state'),
    jobsRoot: at('jobs'),
    isolation,
    env: { ...env, HOME: at('home') },
  })
  try {
    const { exitCode, all, denials } = await sandbox.exec(command, { mergeOutput: true, timeout: 120_000 })
    results[name] = { exitCode, all, denials }
  } catch (error) {
    results[name] = { exitCode: -1, all: String(error), denials: [] }
  } finally {
    await sandbox.destroy()
  }
}
const kept = fs.readdirSync(at('home'), { recursive: true })
// Go keeps modules read-only.
execFileSync('chmod', ['-R', 'u+rwX', base])
fs.rmSync(base, { recursive: true, force: true })
process.stdout.write(JSON.stringify({ results, kept }))
