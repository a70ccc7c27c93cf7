/** The options of `serveE2b`. */
import { type Call, count, logger, oneOf, readWithDefaults, table } from 'nacre/internal'
import { directoryText } from 'nacre/internal/server'
import type { E2bOptions } from './public.js'

export const ISOLATIONS = ['workspace', 'workspace+network', 'none'] as const

export const e2bOptions = table<E2bOptions>()({
  port: { ...count(0, 65_535), default: 49_983 },
  root: directoryText,
  isolation: { ...oneOf(ISOLATIONS), default: 'workspace+network' },
  maxSandboxes: { ...count(1, 10_000), default: 20 },
  logger,
})

/** Checks the options. Throws OptionError. */
export function planE2b(options: unknown) {
  return readWithDefaults(e2bOptions, options, 'serveE2b')
}

export type E2bPlan = ReturnType<typeof planE2b>

/** For the docs. */
export const calls: readonly Call[] = [{ name: 'serveE2b', table: e2bOptions, local: true }]
