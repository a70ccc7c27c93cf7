import type { KnownSecrets } from '../secrets.js'

/** A sandbox's defaults for all of its commands. */
export interface ExecDefaults {
  timeout: number
  maxBuffer: number
  /** As `maxBuffer`, for execStream. */
  streamMaxBuffer: number
  killSignal: number
  forceKillAfterDelay: number
}

/** What applies to everything that a sandbox starts. */
export interface StartDefaults extends ExecDefaults {
  /** Their values are replaced in variables: callers may pass on their own environment. */
  secrets: KnownSecrets
}
