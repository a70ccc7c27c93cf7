/** The life of a server: from the check of the machine until everything has ended. */
import { createTools, type OpenSandbox } from '@nacre/tools'
import { type AnySandbox, type NetworkRules, Sandbox, type SandboxErrorCode } from 'nacre'
import type { EngineOptions } from 'nacre/engine'
import { engineError, isCode } from 'nacre/internal'
import { checkSandbox, onSignals } from 'nacre/internal/cli'
import type { Settings } from './settings.js'

/** Remedies for what a machine may not support. */
const REMEDIES: [SandboxErrorCode, string][] = [
  ['ISOLATION_UNSUPPORTED', 'with --isolation none, commands run without it'],
  ['WORKSPACE_UNSUPPORTED', 'without --copy-on-write, commands change the files themselves'],
]

/** Serves until the client has gone or a signal comes. Then ends everything but jobs. */
export async function serve(settings: Settings): Promise<void> {
  const { container } = settings
  const life = untilStopped()
  if (container === undefined) await serveHere(settings, life)
  else {
    let observers: AsyncDisposable[] = []
    // It answers at once, also while an image is pulled, and survives the loss of the container.
    const open: OpenSandbox = async (context) => {
      const { openSandbox } = await import('nacre/engine')
      const sandbox = await openSandbox({ ...container, ...context })
      // A container that was lost had its own.
      const former = observers
      observers = []
      try {
        await check(sandbox)
        await dispose(former)
        observers = await observe(sandbox, settings)
      } catch (error) {
        await sandbox.destroy()
        throw error
      }
      return sandbox
    }
    await serveTools(open, settings, life, () => dispose(observers))
  }
}

async function serveHere(settings: Settings, life: Life): Promise<void> {
  const { isolation, workspaceId } = settings
  await using sandbox = new Sandbox({ ...settings.sandbox, isolation })
  const observers = await observe(sandbox, settings)
  try {
    await serveTools(sandbox, settings, life, () => dispose(observers))
  } finally {
    await dispose(observers)
  }
  if (workspaceId !== undefined) await leaveWorkspace(sandbox, workspaceId)
}

/** Starts what shows or records what runs, as far as the settings ask for it. */
async function observe(
  sandbox: AnySandbox,
  { recording, console: page }: Settings,
): Promise<AsyncDisposable[]> {
  const observers: AsyncDisposable[] = []
  try {
    if (recording !== undefined)
      observers.push(await (await import('@nacre/console')).record(sandbox, recording))
    if (page !== undefined) {
      const { serve } = await import('@nacre/server')
      const serving = await serve(sandbox as Sandbox, {
        ...page,
        console: true,
        recordings: recording?.directory,
      })
      console.error(`nacre: the console is at ${serving.url}/console#token=${page.token}`)
      observers.push(serving)
    }
    return observers
  } catch (error) {
    await dispose(observers)
    throw error
  }
}

/** Before the sandbox ends, so that recordings have all output. Idempotent. */
async function dispose(observers: AsyncDisposable[]): Promise<void> {
  await Promise.all(observers.map((observer) => observer[Symbol.asyncDispose]()))
}

async function serveTools(
  sandbox: Sandbox | OpenSandbox,
  settings: Settings,
  { stop, stopped }: Life,
  beforeEnd: () => Promise<void>,
): Promise<void> {
  const { http } = settings
  await using tools = createTools(sandbox, settings.tools)
  const notes = instructions(settings)
  // The libraries of the protocol load while the first shell starts.
  const loaded = http === undefined ? import('./stdio.js') : import('./http.js')
  await Promise.all([loaded, sandbox instanceof Sandbox && check(sandbox)])
  const close =
    http === undefined
      ? (await import('./stdio.js')).serveStdio(tools, notes, stop)
      : await (await import('./http.js')).serveHttp(tools, notes, http)
  await stopped
  await beforeEnd()
  await tools.close()
  await close()
}

interface Life {
  stop(): void
  stopped: Promise<void>
}

/** Resolves with the first signal, or when `stop` is called. The second signal ends this process, and so its commands. */
function untilStopped(): Life {
  let stop = () => {}
  const stopped = new Promise<void>((resolve) => {
    stop = resolve
  })
  let isAsked = false
  onSignals(() => {
    if (isAsked) process.exit(1)
    isAsked = true
    stop()
  })
  return { stop, stopped }
}

function instructions({ rules, sandbox, container, workspaceId }: Settings): string[] {
  const where = rules?.filesystem?.write?.join(', ') || 'no directory'
  return [
    ...(container === undefined
      ? []
      : [
          `Commands run in a Linux ${container.engine === 'vm' ? 'virtual machine' : 'container'}, which has the files of the project at the same path.`,
          ...(container.engine === 'vm' ? [machineNote(container.network)] : []),
        ]),
    ...(rules === undefined
      ? []
      : [
          `Commands may write ${where} and $TMPDIR; the user can allow more with the option --write of the server.`,
        ]),
    ...(typeof rules?.network === 'object' ? networkNotes(rules.network) : []),
    ...(workspaceId === undefined
      ? []
      : [
          `Changes in ${sandbox.cwd} become real only by a commit. The user can run: nacre workspace commit NAME, with the name that the tool workspace shows.`,
        ]),
  ]
}

function machineNote(network: EngineOptions['network']): string {
  const hosts = typeof network === 'object' ? network.allow.join(', ') : ''
  return hosts === '' ? 'It has no network.' : `It reaches only ${hosts}, by the proxy in HTTP_PROXY.`
}

function networkNotes({ allow, ask, secrets = {}, requests = {} }: NetworkRules): string[] {
  const hosts = Object.values(secrets).flatMap(({ hosts }) => hosts)
  const reachable = [...new Set([...allow, ...hosts, ...Object.keys(requests)])].join(', ')
  return [
    ...(ask ? ['Commands have no network until the user allows each host; a command waits for that.'] : []),
    ...(reachable === ''
      ? []
      : [`Commands reach ${reachable}${ask ? ' without that' : ' and no other host'}.`]),
    ...Object.entries(secrets).map(
      ([name, { hosts }]) =>
        `$${name} is a placeholder. nacre replaces it with the real value in requests to ${hosts.join(', ')} only.`,
    ),
    ...Object.entries(requests).map(
      ([host, rules]) => `${host} gets only these requests: ${rules.join('; ')}.`,
    ),
  ]
}

/** Otherwise every call would fail. */
async function check(sandbox: AnySandbox): Promise<void> {
  try {
    await checkSandbox(sandbox)
  } catch (error) {
    for (const [code, remedy] of REMEDIES)
      if (isCode(error, code)) throw engineError(code, `${error.shortMessage}; ${remedy}`)
    throw error
  }
}

/** Keeps the changes for the user; a workspace without any is removed. */
async function leaveWorkspace(sandbox: Sandbox, id: string): Promise<void> {
  const { workspace } = sandbox
  const isEmpty = (await workspace.changes()).length === 0
  await sandbox.destroy()
  if (isEmpty) await workspace.delete()
  else console.error(`the changes are kept: see nacre workspace diff ${id}, and nacre workspace commit ${id}`)
}
