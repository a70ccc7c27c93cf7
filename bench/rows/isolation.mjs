/**
 * What isolation costs: a new session, builtins, programs and a load of opened files, without it and with each tier, and
 * against bubblewrap, which starts a new sandbox for every command.
 *
 * The engine looks once per process at what the machine offers, so each tier is a variant with a process of its own.
 */
import { execFile, execFileSync } from 'node:child_process'
import { promisify } from 'node:util'
import { Sandbox } from 'nacre'
import { roundRobin, summarizeEach } from '../stats.mjs'

export const title = 'Isolation'
export const variants = ['namespace', 'landlock']

const run = promisify(execFile)
const rules = { filesystem: { write: ['.'] }, network: 'none', processes: 'own' }
const OPENS = 'for ((i = 0; i < 10000; i++)); do : < /etc/hostname; done'

export async function measure(variant, { quick }) {
  process.env.NACRE_ISOLATION = variant
  const open = { 'without isolation': new Sandbox(), isolated: new Sandbox({ isolation: rules }) }
  const results = {}
  const inTurn = async (name, act, plan) => {
    const actions = Object.fromEntries(
      Object.entries(open).map(([peer, sandbox]) => [peer, () => act(sandbox)]),
    )
    if (plan.bubblewrap && hasBubblewrap()) actions.bubblewrap = () => bubblewrap(plan.bubblewrap)
    results[name] = summarizeEach(
      await roundRobin(actions, { rounds: plan.rounds, burst: plan.burst, warmups: 1 }),
    )
  }
  const ended = []
  await inTurn(
    'a session, to its first answer',
    async (sandbox) => {
      const session = await sandbox.createSession()
      await session.exec('true')
      ended.push([sandbox, session.id])
    },
    { rounds: quick ? 10 : 60 },
  )
  await Promise.all(ended.map(([sandbox, id]) => sandbox.deleteSession(id)))
  const commands = { rounds: quick ? 2 : 6, burst: quick ? 50 : 150 }
  await inTurn('`true`', (sandbox) => sandbox.exec('true'), { ...commands, bubblewrap: 'true' })
  await inTurn('`/bin/true`', (sandbox) => sandbox.exec('/bin/true'), {
    ...commands,
    bubblewrap: '/bin/true',
  })
  await inTurn('10,000 opened files', (sandbox) => sandbox.exec(OPENS), { rounds: quick ? 2 : 6 })
  await Promise.all(Object.values(open).map((sandbox) => sandbox.destroy()))
  return results
}

function hasBubblewrap() {
  try {
    execFileSync('bwrap', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** The same rules, as far as bubblewrap has them. */
function bubblewrap(command) {
  const view = ['--ro-bind', '/', '/', '--tmpfs', '/tmp', '--dev', '/dev', '--proc', '/proc']
  const cwd = process.cwd()
  return run('bwrap', [
    ...view,
    '--bind',
    cwd,
    cwd,
    '--unshare-pid',
    '--unshare-net',
    '--unshare-ipc',
    'bash',
    '-c',
    command,
  ])
}
