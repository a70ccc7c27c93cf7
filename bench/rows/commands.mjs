/** A host command that returns at once, beside a program that does, without and with isolation: many in a row. */
import { Sandbox } from 'nacre'
import { roundRobin, summarizeEach } from '../stats.mjs'

export const title = 'A host command'
export const variants = ['']

export async function measure(_variant, { quick }) {
  const commands = { ask: () => 0 }
  const sandbox = new Sandbox({ commands })
  const isolated = new Sandbox({ commands, isolation: 'workspace' })
  const actions = {
    'host command': () => sandbox.exec('ask', { check: true }),
    '/bin/true': () => sandbox.exec('/bin/true', { check: true }),
    'host command, isolated': () => isolated.exec('ask', { check: true }),
    '/bin/true, isolated': () => isolated.exec('/bin/true', { check: true }),
  }
  const samples = await roundRobin(actions, { rounds: quick ? 4 : 20, burst: 20, warmups: 1 })
  await sandbox.destroy()
  await isolated.destroy()
  return summarizeEach(samples)
}
