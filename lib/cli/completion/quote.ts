/** A word for bash, zsh and fish, in single quotes. */
export function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
