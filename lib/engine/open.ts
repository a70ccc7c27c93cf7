/** `openSandbox`: a sandbox on this machine, in a container, or in a virtual machine. */
import { clientOf } from '../backends/http/client.js'
import { Sandbox } from '../backends/native/sandbox.js'
import { refuseAborted } from '../base/abort.js'
import { invalidOption } from '../base/errors.js'
import { type EngineOptions, type EngineSandbox, openSandboxOptions } from '../calls/engine.js'
import type { Capabilities, ForwardOptions } from '../calls/index.js'
import { forwardOptions } from '../calls/ports.js'
import { Forwards } from '../sandbox/forwards.js'
import { portNumber } from '../schema/http.js'
import { readArgument, readOptions, readWithDefaults } from '../schema/read.js'
import { ProgramBackend } from './backend.js'
import { stopContainer } from './containers.js'
import { enterContainer, enterRunning } from './enter-container.js'
import type { Engine } from './find.js'
import { Link } from './link.js'
import type { Program } from './program.js'
import { enterMachine } from './vm.js'

/** Milliseconds in which a server must begin to respond, as in `connectProgram`. */
const REQUEST_MS = 30_000

const NO_SECRETS =
  'isolation.network.secrets must be left out for a container, which would have the values: use them in a Sandbox of this machine'

/** See lib/calls/engine.ts. */
export async function openSandbox(options: EngineOptions = {}): Promise<EngineSandbox> {
  const values = readWithDefaults(openSandboxOptions, options, 'openSandbox')
  refuseAborted(values.signal, 'opening the sandbox')
  const { engine: wanted } = values
  const isMachine = wanted === 'vm'
  if (isMachine && values.where === 'here') throw invalidOption("where must not be 'here' with engine 'vm'")
  const machineOption = (['kernel', 'emulate', 'spare'] as const).find((name) => options[name] !== undefined)
  if (!isMachine && machineOption !== undefined)
    throw invalidOption(`${machineOption} is for a virtual machine: add engine: 'vm'`)
  const named = typeof values.network === 'object' ? undefined : values.network
  if (!isMachine && named !== values.network)
    throw invalidOption("network must be a name without engine 'vm': give hosts in isolation.network")
  const isHere =
    !isMachine && (values.where === 'here' || (values.where === 'auto' && process.platform === 'linux'))
  // These are checked, and read again where they are applied.
  const { env, isolation } = options
  if (isHere) return new OwnSandbox({ cwd: values.cwd, env, isolation })
  const network = values.isolation?.network
  if (typeof network === 'object' && network.secrets !== undefined) throw invalidOption(NO_SECRETS)
  if (isMachine) {
    const program = await enterMachine(values, options)
    const { backend, forward, link } = sandboxBehind(program, true)
    const setPaused = async (isPaused: boolean) => {
      await link.setPaused(isPaused)
      backend.connection.check()
    }
    const vm = {
      ...{ pid: program.pid as number, emulated: values.emulate },
      ...{ pause: () => setPaused(true), resume: () => setPaused(false) },
    }
    return Object.assign(clientOf(backend), { container: null, vm, forward, stop: () => backend.close() })
  }
  const plan = { ...values, engine: wanted, network: named }
  const { program, engine, name, image } = await enterContainer(plan, isolation)
  // Otherwise the container has the ports of this machine.
  const isApart = values.network !== 'host' || process.platform !== 'linux'
  const { backend, forward } = sandboxBehind(program, isApart)
  return Object.assign(clientOf(backend), {
    container: { engine: engine.name, name, image },
    vm: null,
    forward,
    async stop() {
      try {
        await backend.destroy()
      } finally {
        await stopContainer(engine, { id: name, name })
      }
    },
  })
}

/** The server behind a program, and the ports of where it runs. */
function sandboxBehind(program: Program, isApart: boolean) {
  const link = new Link(program)
  const backend = new ProgramBackend(program, link, { requestTimeout: REQUEST_MS, logger: undefined })
  const forwards = new Forwards((port) => link.connect(port))
  void link.lost.then(() => forwards.close())
  const forward = async (port: number, options?: ForwardOptions) => {
    const { local } = readOptions(forwardOptions, options, 'forward')
    return forwards.forward(readArgument(portNumber.read, port, 'port'), { local, isApart })
  }
  return { backend, forward, link }
}

/** What works in a container that runs. Rejects with CONNECTION_FAILED. */
export async function examineContainer(engine: Engine, name: string, project: string): Promise<Capabilities> {
  const program = await enterRunning(engine, name, project)
  const values = { requestTimeout: REQUEST_MS, logger: undefined }
  await using sandbox = clientOf(new ProgramBackend(program, new Link(program), values))
  return await sandbox.capabilities()
}

/** A sandbox on this machine. */
class OwnSandbox extends Sandbox implements EngineSandbox {
  readonly container = null
  readonly vm = null

  async stop(): Promise<void> {
    await this.destroy()
  }
}
