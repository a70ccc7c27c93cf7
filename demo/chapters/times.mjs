/** The time of one `true`, beside child_process, the two in turn. */
import { exec } from 'node:child_process'
import { promisify } from 'node:util'

const ROUNDS = 40

export async function times(story, sandbox) {
  const build = process.env.NACRE_NATIVE === 'debug' ? ', with a debug build of nacre' : ''
  story.title(`The time of one \`true\`, median of ${ROUNDS}${build}`)
  const runs = {
    'sandbox.exec': () => sandbox.exec('true'),
    'child_process.exec': () => promisify(exec)('true'),
  }
  const samples = Object.fromEntries(Object.keys(runs).map((name) => [name, []]))
  for (let round = 0; round < ROUNDS; round++) {
    for (const [name, run] of Object.entries(runs)) {
      const begun = performance.now()
      await run()
      samples[name].push(performance.now() - begun)
    }
  }
  for (const [name, times] of Object.entries(samples)) {
    story.say(`${name.padEnd(20)} ${median(times).toFixed(2).padStart(6)} ms`)
  }
  const ratio = median(samples['child_process.exec']) / median(samples['sandbox.exec'])
  story.check(`no process is started, so it is faster: ${ratio.toFixed(0)} times`, ratio > 1, ratio)
}

function median(times) {
  return times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)]
}
