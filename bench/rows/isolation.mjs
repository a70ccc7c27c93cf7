/**
 * The cost of isolation: a new session, builtins, programs and a load of opened files, without it and with each tier.
 * Compared with bubblewrap and sandbox-runtime, which start a new sandbox for every command.
 *
 * The engine determines the machine's offer once per process, so each tier is a variant with its own process.
 */
import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { promisify } from 'node:util'
import { Sandbox } from 'nacre'
import { roundRobin, summarizeEach } from '../stats.mjs'

export const title = 'Isolation'
export const variants = ['namespace', 'landlock']

/** A sandbox of a peer that hangs fails the row. */
const run = (file, args) => promisify(execFile)(file, args, { timeout: 30_000, killSignal: 'SIGKILL' })
/** @type {import('nacre').IsolationRules} */
const rules = { filesystem: { write: ['.'] }, network: 'none', processes: 'own' }
const OPENS = 'for ((i = 0; i < 10000; i++)); do : < /etc/hostname; done'

export async function measure(variant, { quick }) {
  process.env.NACRE_ISOLATION = variant
  const open = { 'without isolation': new Sandbox(), isolated: new Sandbox({ isolation: rules }) }
  const results = {}
  // sandbox-runtime leaves files in the working directory.
  const directory = mkdtempSync('/var/tmp/nacre-bench-')
  process.chdir(directory)
  const runtime = await openSandboxRuntime()
  const inTurn = async (name, act, plan) => {
    const actions = Object.fromEntries(
      Object.entries(open).map(([peer, sandbox]) => [peer, () => act(sandbox)]),
    )
    if (plan.each && hasPrograms('--version', 'bwrap')) actions.bubblewrap = () => bubblewrap(plan.each)
    if (plan.each && runtime) actions['sandbox-runtime'] = () => sandboxRuntime(runtime, plan.each)
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
  const commands = { rounds: quick ? 2 : 6, burst: 50 }
  await inTurn('`true`', (sandbox) => sandbox.exec('true'), { ...commands, each: 'true' })
  await inTurn('`/bin/true`', (sandbox) => sandbox.exec('/bin/true'), {
    ...commands,
    each: '/bin/true',
  })
  await inTurn('10,000 opened files', (sandbox) => sandbox.exec(OPENS), { rounds: quick ? 2 : 6 })
  await Promise.all(Object.values(open).map((sandbox) => sandbox.destroy()))
  await runtime?.reset()
  rmSync(directory, { recursive: true })
  return results
}

/** True if the programs are installed; `option` makes them print their version. */
function hasPrograms(option, ...programs) {
  try {
    for (const program of programs) execFileSync(program, [option], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Its manager, with the same rules; undefined if programs that it needs are missing. */
async function openSandboxRuntime() {
  if (!hasPrograms('--version', 'bwrap', 'rg') || !hasPrograms('-V', 'socat')) return undefined
  const { SandboxManager } = await import('@anthropic-ai/sandbox-runtime')
  await SandboxManager.initialize({
    network: { allowedDomains: [], deniedDomains: [] },
    filesystem: { denyRead: [], allowWrite: [process.cwd()], denyWrite: [] },
  })
  return SandboxManager
}

async function sandboxRuntime(manager, command) {
  await run('bash', ['-c', await manager.wrapWithSandbox(command)])
}

/** The same rules, as far as bubblewrap supports them. */
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
