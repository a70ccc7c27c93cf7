/** sandboxd as `serve` uses it: what the companion package `@nacre/sandboxd` gets and gives. */
import type { Logger } from 'nacre'
import { OptionError } from 'nacre/internal'
import { type backends, isNotInstalled, NativeBackend, notInstalled } from 'nacre/internal/server'
import type { ServingSandboxd } from './public.js'

/** How sandboxd listens: its options and those that it shares with the server, checked. */
export interface SandboxdPlan {
  host: string
  grpcPort: number
  restPort: number
  root: string
  metadataPrefix: string
  /** Calls at a time. */
  maxRequests: number
  maxConnections: number
  maxHeaderBytes: number
  headersTimeout: number
  keepAliveTimeout: number
  logger: Logger | undefined
}

export interface Sandboxd extends ServingSandboxd {
  /** Refuses calls and requests from now on; running ones go on. */
  drain(): void
  /** Takes no more calls, and resolves when all connections have ended. */
  finish(): Promise<void>
  /** Resolves when no call is being answered. */
  idle(): Promise<void>
  /** Cuts what is left. */
  cut(): void
  /** Stops at once. */
  abandon(): void
}

/** Listens on both ports. When it cannot, nothing is left listening. */
export type OpenSandboxd = (backend: NativeBackend, plan: SandboxdPlan) => Promise<Sandboxd>

/** A variable, so that bundlers leave the import alone: most servers do not have the package. webpack needs a comment, too. */
const NAME = '@nacre/sandboxd'

/** Throws OptionError when the package is not installed, and for a client. */
export async function openSandboxd(backend: backends.Backend, plan: SandboxdPlan): Promise<Sandboxd> {
  if (!(backend instanceof NativeBackend))
    throw new OptionError('INVALID_OPTION', 'sandboxd needs a Sandbox of this process, not a client')
  const sandboxd: { openSandboxd: OpenSandboxd } = await import(/* webpackIgnore: true */ NAME).catch(
    (error) => {
      throw isNotInstalled(NAME, error) ? notInstalled('sandboxd', NAME) : error
    },
  )
  return sandboxd.openSandboxd(backend, plan)
}
