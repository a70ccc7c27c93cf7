/** `openSandbox`: a sandbox on this machine, or in a container. */
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

/** Milliseconds in which a server must begin to respond, as in `connectProgram`. */
const REQUEST_MS = 30_000

const NO_SECRETS =
  'isolation.network.secrets must be left out for a container, which would have the values: use them in a Sandbox of this machine'

/** See lib/calls/engine.ts. */
export async function openSandbox(options: EngineOptions = {}): Promise<EngineSandbox> {
  const values = readWithDefaults(openSandboxOptions, options, 'openSandbox')
  refuseAborted(values.signal, 'opening the sandbox')
  const isHere = values.where === 'here' || (values.where === 'auto' && process.platform === 'linux')
  // These are checked, and read again where they are applied.
  const { env, isolation } = options
  if (isHere) return new OwnSandbox({ cwd: values.cwd, env, isolation })
  const network = values.isolation?.network
  if (typeof network === 'object' && network.secrets !== undefined) throw invalidOption(NO_SECRETS)
  const { program, engine, name, image } = await enterContainer(values, isolation)
  const link = new Link(program)
  const backend = new ProgramBackend(program, link, { requestTimeout: REQUEST_MS, logger: undefined })
  // Otherwise the container has the ports of this machine.
  const isApart = values.network !== 'host' || process.platform !== 'linux'
  const forwards = new Forwards((port) => link.connect(port))
  void link.lost.then(() => forwards.close())
  return Object.assign(clientOf(backend), {
    container: { engine: engine.name, name, image },
    async forward(port: number, options?: ForwardOptions) {
      const { local } = readOptions(forwardOptions, options, 'forward')
      return forwards.forward(readArgument(portNumber.read, port, 'port'), { local, isApart })
    },
    async stop() {
      try {
        await backend.destroy()
      } finally {
        await stopContainer(engine, { id: name, name })
      }
    },
  })
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

  async stop(): Promise<void> {
    await this.destroy()
  }
}
