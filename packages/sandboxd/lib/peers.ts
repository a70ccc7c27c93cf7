/**
 * The packages that sandboxd needs and @nacre/server does not bring along: optional peers, loaded only when they are used.
 */

import type * as Grpc from '@grpc/grpc-js'
import type * as ProtoLoader from '@grpc/proto-loader'
import type * as Reflection from '@grpc/reflection'
import type * as Health from 'grpc-health-check'
import { OptionError } from 'nacre/internal'

export interface Peers {
  grpc: typeof Grpc
  loader: typeof ProtoLoader
  reflection: typeof Reflection
  health: typeof Health
}

const NAMES = ['@grpc/grpc-js', '@grpc/proto-loader', '@grpc/reflection', 'grpc-health-check'] as const

/** Loads the packages. Throws OptionError with the names of those that are not installed. */
export async function loadPeers(): Promise<Peers> {
  // Spelled out: a bundler must see what stays outside.
  const loads = [
    () => import('@grpc/grpc-js'),
    () => import('@grpc/proto-loader'),
    () => import('@grpc/reflection'),
    () => import('grpc-health-check'),
  ]
  const loaded = await Promise.allSettled(loads.map((load) => load()))
  const missing = NAMES.filter((_, index) => isMissing(loaded[index]))
  if (missing.length > 0) {
    const install = `npm install ${missing.join(' ')}`
    throw new OptionError(
      'INVALID_OPTION',
      `sandboxd needs packages that are not installed; where @nacre/server is installed, run: ${install}`,
    )
  }
  const [grpc, loader, reflection, health] = loaded.map((result) => {
    if (result.status === 'rejected') throw result.reason
    // They are CommonJS modules.
    return (result.value as { default?: unknown }).default ?? result.value
  })
  return { grpc, loader, reflection, health } as Peers
}

function isMissing(result: PromiseSettledResult<unknown> | undefined): boolean {
  if (result?.status !== 'rejected') return false
  const { code } = result.reason as NodeJS.ErrnoException
  return code === 'ERR_MODULE_NOT_FOUND' || code === 'MODULE_NOT_FOUND'
}
