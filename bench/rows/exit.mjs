/** `exit 3` and the following command, compared with two ordinary commands; with a small and a large state. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Sandbox } from 'nacre'
import { summarize } from '../stats.mjs'

export const title = '`exit 3`, then the next command'
export const variants = ['small state', 'large state']

/** 400 functions of about 1 KB and 1000 variables of about 400 bytes. */
const LARGE_STATE = `
body=$(for i in {1..20}; do echo "  echo 'a line of a function that is somewhat long' $i;"; done)
for i in {1..400}; do eval "function_$i() { $body }"; done
for i in {1..1000}; do printf -v "variable_$i" '%0350d' "$i"; done`

export async function measure(variant, { quick }) {
  const sandbox = new Sandbox()
  if (variant === 'large state') await sandbox.exec(LARGE_STATE, { check: true })
  const { stdout: size } = await sandbox.exec('{ declare -p; declare -f; } | wc -c')
  const [answers, nexts, plain] = [[], [], []]
  for (let round = 0; round < (quick ? 10 : 60); round++) {
    await sleep(40)
    const begun = performance.now()
    const { exitCode } = await sandbox.exec('exit 3')
    answers.push(performance.now() - begun)
    await sandbox.exec('true')
    nexts.push(performance.now() - begun)
    await sleep(40)
    const start = performance.now()
    await sandbox.exec('true')
    await sandbox.exec('true')
    plain.push(performance.now() - start)
    if (exitCode !== 3) throw new Error(`exit 3 gave ${exitCode}`)
  }
  await sandbox.destroy()
  return { bytes: Number(size), answer: summarize(answers), next: summarize(nexts), plain: summarize(plain) }
}
