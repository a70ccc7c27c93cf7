/** What `nacre doctor` has found about one subject. */
export interface Finding {
  level: 'ok' | 'warn' | 'fail'
  subject: string
  text: string
  /** The fix. */
  remedy?: string
}
