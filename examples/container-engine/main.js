/** Sends the same requests to the container with each engine, and prints the answers side by side. */
import { createContainer } from './server.js'
import { Session as FifoSession } from './session-fifo.js'
import { Session as NacreSession } from './session-nacre.js'

/** Each list runs in its own session. The answer to its last command is shown. */
const CASES = {
  'state stays': ['cd /usr && export NAME=you', 'echo "$NAME in $PWD"'],
  'a failed command': ['ls nowhere 2>/dev/null'],
  'exit ends the session': ['exit 7'],
  'a command after a timeout': ['sleep 10', 'echo free again'],
  'an unclosed quote': ['echo "never closed'],
  'unbalanced braces': ['}; echo escaped; {'],
}

async function answers(Session) {
  const container = createContainer(Session)
  const port = await container.listen()
  const results = {}
  for (const [name, commands] of Object.entries(CASES)) {
    for (const command of commands) {
      const body = JSON.stringify({ sessionId: name.replaceAll(' ', '-'), command })
      const answer = await fetch(`http://127.0.0.1:${port}/api/execute`, { method: 'POST', body })
      results[name] = { status: answer.status, ...(await answer.json()) }
    }
  }
  await container.close()
  return results
}

const fifo = await answers(FifoSession)
const nacre = await answers(NacreSession)
for (const name of Object.keys(CASES)) {
  console.log(name)
  console.log(`  FIFO:  ${show(fifo[name])}`)
  console.log(`  nacre: ${show(nacre[name])}`)
}

function show({ status, code, message, stdout, exitCode }) {
  if (code !== undefined) return `${status} ${code}: ${message}`
  return `${status} exit code ${exitCode}${stdout === '' ? '' : `, printed: ${stdout}`}`
}
