/**
 * The program in a container of `openSandbox`: serves a sandbox on standard input and output. It is bundled with nacre into
 * one file, dist/engine/inside.js.
 *
 * `nacre-supervisor --enter` starts it, and gives it the variables of the image under other names.
 */
import { type Isolation, type IsolationRules, type Logger, Sandbox, type SandboxOptions } from 'nacre'
import { REFUSED } from 'nacre/internal/server'
import { envelope, isOurFault } from './failure.js'
import { serveStdio } from './stdio.js'

/** What `openSandbox` sends. null removes a variable. */
interface Settings {
  cwd: string
  env: Record<string, string | null>
  isolation?: Isolation
  user?: { uid: number; gid: number }
}

/** A volume: the layers of workspaces cannot lie on those of the container. Commands can write nothing above them. */
const STATE = '/var/lib/nacre/state'
const JOBS = '/var/lib/nacre/jobs'
/** What the names of the image's variables begin with. */
const IMAGE = 'NACRE_ENV_'

const MOST_MESSAGE = 1000

const print = (text: string) => console.error(text)
const quiet = () => {}
const logger: Logger = { debug: quiet, info: quiet, warn: print, error: print }

const { NACRE_INSIDE: given = '{}', NACRE_HOME: home = '/root' } = process.env
const { cwd, env, isolation, user }: Settings = JSON.parse(given)
const variables = Object.fromEntries(Object.entries(env).map(([name, value]) => [name, value ?? undefined]))
const image = Object.entries(process.env).filter(([name]) => name.startsWith(IMAGE))
const sandbox = opened({
  cwd,
  // What only this program needs.
  env: {
    ...Object.fromEntries(image.map(([name]) => [name, undefined])),
    BUN_RUNTIME_TRANSPILER_CACHE_PATH: undefined,
    NACRE_INSIDE: undefined,
    NACRE_NATIVE_PATH: undefined,
    NACRE_HOME: undefined,
    ...Object.fromEntries(image.map(([name, value]) => [name.slice(IMAGE.length), value])),
    HOME: home,
    ...variables,
  },
  isolation: isolation && withHome(isolation),
  user,
  stateDir: STATE,
  jobsRoot: JOBS,
  logger,
})
process.exit((await serveStdio(sandbox, logger, true)) ? 0 : 1)

/** The sandbox, unless its options are refused: then this program ends, and its client throws the same error. */
function opened(options: SandboxOptions): Sandbox {
  try {
    return new Sandbox(options)
  } catch (error) {
    if (isOurFault(error)) throw error
    const shown = envelope(error, 'v1')
    // The client keeps the end of what is printed.
    console.error(JSON.stringify({ ...shown, message: shown.message.slice(0, MOST_MESSAGE) }))
    process.exit(REFUSED)
  }
}

/** Lets programs write to the home directory: it is the container's, and has nothing of the machine. */
function withHome(isolation: Isolation): IsolationRules {
  const rules: IsolationRules = typeof isolation === 'string' ? { preset: isolation } : isolation
  const write = rules.filesystem?.write ?? (rules.preset === 'read-only' ? [] : ['.'])
  return { ...rules, filesystem: { ...rules.filesystem, write: [...write, home] } }
}
