/** What the paths of a call on files mean. */
export interface FileScope {
  /** The session whose rules apply. */
  sessionId: string
  /** Where relative paths start, and what no path leaves. Null: the session's directory, and no such limit. */
  root: string | null
}
