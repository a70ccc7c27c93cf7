/** The options of `serveE2b` and `serveDaytona`. */
import { type Call, kinds } from 'nacre/internal'

import type { DaytonaOptions, E2bOptions } from './public.js'

export const ISOLATIONS = ['workspace', 'workspace+network', 'none'] as const

const shared = {
  root: kinds.directoryText,
  isolation: { ...kinds.oneOf(ISOLATIONS), default: 'workspace+network' },
  maxSandboxes: { ...kinds.count(1, 10_000), default: 20 },
  logger: kinds.logger,
} as const

export const e2bOptions = kinds.table<E2bOptions>()({
  port: { ...kinds.count(0, 65_535), default: 49_983 },
  ...shared,
})

export const daytonaOptions = kinds.table<DaytonaOptions>()({
  port: { ...kinds.count(0, 65_535), default: 3986 },
  ...shared,
})

/** Checks the options. Throws OptionError. */
export function planE2b(options: unknown) {
  return kinds.readWithDefaults(e2bOptions, options, 'serveE2b')
}

/** The same for Daytona. */
export function planDaytona(options: unknown) {
  return kinds.readWithDefaults(daytonaOptions, options, 'serveDaytona')
}

export type Plan = ReturnType<typeof planE2b>

/** For the docs. */
export const calls: readonly Call[] = [
  { name: 'serveE2b', table: e2bOptions, local: true },
  { name: 'serveDaytona', table: daytonaOptions, local: true },
]
