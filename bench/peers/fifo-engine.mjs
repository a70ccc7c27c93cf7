/**
 * A persistent bash driven through FIFOs and files: a common way to build a session without native code, as small as
 * possible.
 *
 * One bash reads commands from its standard input. For each command it creates two FIFOs. Two background loops read them
 * line by line and append each line, labelled with its stream, to a log file. The exit code goes to a separate file, which
 * is renamed into place. The host watches the directory for that file and then parses the log. Like most such engines, it
 * does not handle timeouts, `exit` or unclosed quotes.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, watch } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

export const name = 'bash over FIFOs'

const STDOUT = '\x01\x01\x01'
const STDERR = '\x02\x02\x02'
/** How often to check for the file without an event, in ms: events of watched directories can be lost. */
const POLL = 100

export async function open() {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'fifo-engine-'))
  const shell = spawn('bash', ['--norc'], { stdio: ['pipe', 'ignore', 'ignore'] })
  const waiting = new Map()
  const watcher = watch(directory, (_event, file) => waiting.get(file)?.())
  let count = 0

  async function run(command) {
    count += 1
    const base = path.join(directory, String(count))
    const done = new Promise((resolve) => {
      const poll = setInterval(() => waiting.get(`${path.basename(base)}.exit`)?.(), POLL)
      waiting.set(`${path.basename(base)}.exit`, () => {
        const exitCode = readIfThere(`${base}.exit`)
        if (exitCode === undefined) return
        clearInterval(poll)
        waiting.delete(`${path.basename(base)}.exit`)
        resolve(Number(exitCode))
      })
    })
    shell.stdin.write(script(command, base))
    const exitCode = await done
    const output = takeApart(readIfThere(`${base}.log`) ?? '')
    rmSync(`${base}.log`, { force: true })
    rmSync(`${base}.exit`, { force: true })
    return { ...output, exitCode }
  }

  async function close() {
    watcher.close()
    shell.kill('SIGKILL')
    rmSync(directory, { recursive: true, force: true })
  }

  return { run, close }
}

function script(command, base) {
  return `{
mkfifo ${base}.out ${base}.err
(while IFS= read -r line || [[ -n $line ]]; do printf '${STDOUT}%s\\n' "$line"; done <${base}.out >>${base}.log) & label_out=$!
(while IFS= read -r line || [[ -n $line ]]; do printf '${STDERR}%s\\n' "$line"; done <${base}.err >>${base}.log) & label_err=$!
{
${command}
} </dev/null >${base}.out 2>${base}.err
code=$?
wait $label_out $label_err 2>/dev/null
rm -f ${base}.out ${base}.err
echo $code >${base}.exit.tmp
mv ${base}.exit.tmp ${base}.exit
}
`
}

function takeApart(log) {
  const output = { stdout: '', stderr: '' }
  for (const line of log.split('\n')) {
    if (line.startsWith(STDOUT)) output.stdout += `${line.slice(STDOUT.length)}\n`
    else if (line.startsWith(STDERR)) output.stderr += `${line.slice(STDERR.length)}\n`
  }
  return output
}

function readIfThere(file) {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}
