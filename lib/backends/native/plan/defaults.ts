/** A sandbox's defaults for all of its commands. */
export interface ExecDefaults {
  timeout: number
  maxBuffer: number
  /** As `maxBuffer`, for execStream. */
  streamMaxBuffer: number
  killSignal: number
  forceKillAfterDelay: number
}
