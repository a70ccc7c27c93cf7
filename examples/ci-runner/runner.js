/** Runs the services and the steps of a pipeline in one session. */
import { Sandbox, SandboxError } from 'nacre'

/** The format of an annotation: a step may print `::error file=app.js,line=3::message`, as CI tools do. */
const ANNOTATION = /^::(error|warning) file=([^,:]+),line=(\d+)::(.*)$/
const DEFAULT_TIMEOUT = 10 * 60_000

export async function runPipeline({ cwd, env, services = {}, steps }) {
  const sandbox = new Sandbox({ cwd, env: { CI: 'true', ...env } })
  const report = { steps: [], annotations: [] }
  try {
    for (const [name, service] of Object.entries(services)) await startService(sandbox, name, service)
    // A step stops at its first failing command. The session survives, with everything exported so far.
    await sandbox.exec('set -eo pipefail')
    let failed = false
    for (const step of steps) {
      if (failed && !step.always) {
        report.steps.push({ name: step.name, outcome: 'skipped', seconds: 0, failed: false })
        continue
      }
      const result = await runStep(sandbox, step, report.annotations)
      report.steps.push(result)
      failed ||= result.failed
    }
  } finally {
    await sandbox.destroy() // kills the services, and what the steps left running in the background
  }
  return report
}

/** Starts a service and exports its port to the steps, as NAME_PORT. */
async function startService(sandbox, name, { run, ready }) {
  const service = await sandbox.startService(run, { processId: name, healthCheck: { log: ready } })
  const { match } = await service.waitForLog(ready)
  await sandbox.setEnvVars({ [`${name.toUpperCase()}_PORT`]: match[1] })
  console.log(`service ${name} is ready on port ${match[1]}`)
}

/** Runs a step in the shared session, where the directory and variables of earlier steps persist. */
async function runStep(sandbox, step, annotations) {
  console.log(`::group::${step.name}`)
  const begun = performance.now()
  const end = await execute(sandbox, step, (line) => {
    console.log(line)
    const [, level, file, number, message] = ANNOTATION.exec(line) ?? []
    if (level !== undefined) annotations.push({ level, place: `${file}:${number}`, message })
  })
  console.log('::endgroup::')
  const failed = end !== 'passed' && !step.continueOnError
  if (failed) console.log(`::error::${step.name}: ${end}`)
  const outcome = end === 'passed' || failed ? end : `${end}, ignored`
  return { name: step.name, outcome, seconds: ((performance.now() - begun) / 1000).toFixed(1), failed }
}

/** Resolves to 'passed', or to why the step failed. Prints lines while the step runs. */
async function execute(sandbox, { run, env, timeout = DEFAULT_TIMEOUT }, onLine) {
  try {
    const { exitCode, signal } = await sandbox.exec(run, { env, timeout, mergeOutput: true, onLine })
    if (exitCode === 0) return 'passed'
    return exitCode === null ? `killed by ${signal}` : `exit code ${exitCode}`
  } catch (error) {
    if (error instanceof SandboxError && error.code === 'COMMAND_TIMEOUT')
      return `timeout after ${timeout} ms`
    throw error
  }
}
