/** The person. */
import { createInterface } from 'node:readline/promises'

/** Whether the person says yes. Rejects when the signal is aborted. */
export async function ask(question, signal) {
  if (process.argv.includes('--play')) {
    const isStaging = question.includes('staging')
    console.log(`${question} ${isStaging ? 'yes' : 'no'}`)
    return isStaging
  }
  const terminal = createInterface({ input: process.stdin, output: process.stdout })
  try {
    return (await terminal.question(`${question} [yes/no] `, { signal })) === 'yes'
  } finally {
    terminal.close()
  }
}
