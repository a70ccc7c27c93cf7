/**
 * The variables of the sandbox that anyone may see.
 */
/** Words in names of variables that hold secrets. */
const SECRET = /TOKEN|SECRET|PASSWORD|CREDENTIAL|KEY/i

/** Variables with the prefix, but for those whose name speaks of a secret. */
export function metadataOf(env: Record<string, string>, prefix: string): Record<string, string> {
  const shown = Object.entries(env).filter(([name]) => name.startsWith(prefix) && !SECRET.test(name))
  return Object.fromEntries(shown)
}
