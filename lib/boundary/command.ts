/** What runs, and in what surroundings: the same for commands, processes and jobs. */
export interface NativeCommand {
  /** Shell text. */
  text?: string
  /** Or words. */
  argv?: string[]
  /** Absolute, or, but for jobs, relative to the session's directory. Default: that, or the sandbox's. */
  cwd?: string
  envNames?: string[]
  /** Null unsets. */
  envValues?: Array<string | null>
}
