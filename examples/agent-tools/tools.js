/** The tools that the model can call. Each has a description for the model and returns text. */
import path from 'node:path'
import { SandboxError } from 'nacre'

/** Bytes of a command's output that the model sees: half from the start, half from the end. */
const BUDGET = 1000
/** Maximum run time of a command in milliseconds. The model can ask for less. */
const MAX_TIMEOUT = 60_000

/** Creates the tools. `logs` is a directory inside the workspace for the full output of commands. */
export function createTools(sandbox, logs) {
  let count = 0
  return {
    run: {
      description: 'Runs a bash command. Directory, variables and functions persist between calls.',
      async run({ command, timeout = MAX_TIMEOUT }) {
        const log = path.join(logs, `${++count}.log`)
        // One pipe for both streams, so that errors appear where they happened.
        const run = sandbox.execStream(command, {
          maxBuffer: BUDGET,
          mergeOutput: true,
          timeout: Math.min(timeout, MAX_TIMEOUT),
        })
        return describe(await logged(sandbox, run, log), log)
      },
    },
    write_file: {
      description: 'Writes a file in the workspace.',
      async run({ file, content }) {
        const { size } = await sandbox.files.write(file, content)
        return `wrote ${size} bytes to ${file}`
      },
    },
    start_server: {
      description: 'Starts a background server and waits until it listens on its port.',
      async run({ name, command, port }) {
        const service = await sandbox.startService(command, {
          processId: name,
          healthCheck: { port, timeout: 10_000 },
          restart: 'on-failure',
        })
        return `${name} listens on port ${port}, ${service.status}`
      },
    },
    server_log: {
      description: 'Shows the last lines of a server.',
      async run({ name, lines = 20 }) {
        const { stdout, stderr } = await sandbox.getProcessLogs(name)
        return `${stdout}${stderr}`
          .split('\n')
          .slice(-lines - 1)
          .join('\n')
      },
    },
    stop_server: {
      description: 'Stops a server with everything that it has started.',
      async run({ name }) {
        return (await sandbox.killProcess(name)) ? `${name} stopped` : `${name} had ended before`
      },
    },
  }
}

/**
 * Writes a run's full output to a file while it runs, and resolves to its result. The write obeys the sandbox's rules, so a
 * link that a command put in the file's place leads nowhere else.
 */
async function logged(sandbox, run, log) {
  try {
    // Events end normally after a timeout, so the log is kept. `toReadableStream()` would fail and undo the write.
    await sandbox.files.write(log, output(run))
    return await run.result
  } catch (error) {
    if (error instanceof SandboxError && error.result !== undefined) return error.result
    throw error
  }
}

async function* output(run) {
  for await (const event of run) if (event.type === 'stdout') yield event.data
}

/** The text that the model reads: how the command ended, then output within the budget, then where the rest is. */
function describe(result, log) {
  const end = result.timedOut
    ? `timed out after ${Math.round(result.duration)} ms`
    : (result.signal ?? `exit code ${result.exitCode}`)
  const rest = result.truncated === null ? '' : `\nThe full output is in ${log}`
  return `[${end}]\n${result.stdout.trimEnd()}${rest}`
}
