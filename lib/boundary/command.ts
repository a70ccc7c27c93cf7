/** What runs, and in which environment: the same for commands, processes and jobs. */
export interface NativeCommand {
  /** Shell text; or else `argv`. */
  text?: string
  /** Arguments, without a shell. */
  argv?: string[]
  /** Absolute; except for jobs, also relative to the session's directory. Default: that directory, or the sandbox's. */
  cwd?: string
  envNames?: string[]
  /** Null unsets. */
  envValues?: Array<string | null>
}
