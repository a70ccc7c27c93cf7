/** The meaning of paths in a file call. */
export interface FileScope {
  /** The session whose rules apply. */
  sessionId: string
  /** Where relative paths start, and which no path leaves. Null: the session's directory, without that limit. */
  root: string | null
}
