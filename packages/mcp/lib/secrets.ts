/** What commands do not get, and replies do not show. This is help, not a guarantee: `base64` defeats it. */

const SECRET_NAME = /TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|PRIVATE/i
/** A shorter value would match too much. */
const SHORTEST_VALUE = 8

/** Tokens and keys that can be recognized. The lengths are limited, so that the time stays linear. */
export const KNOWN_SECRETS = [
  /\bgh[oprsu]_[A-Za-z0-9]{36,255}/,
  /\bgithub_pat_\w{22,255}/,
  /\bsk-[\w-]{20,255}/,
  /\bAKIA[0-9A-Z]{16}\b/,
  /\bxox[abeoprs]-[\w-]{10,255}/,
  /\beyJ[\w-]{8,2048}\.eyJ[\w-]{8,4096}\.[\w-]{1,1024}/,
  /-----BEGIN [A-Z ]{0,32}PRIVATE KEY-----[\s\S]{0,8192}?-----END [A-Z ]{0,32}PRIVATE KEY-----/,
]

/** The names of variables that look like secrets. */
export function secretNames(env: NodeJS.ProcessEnv): string[] {
  return Object.keys(env).filter((name) => SECRET_NAME.test(name))
}

/** Their values. */
export function secretValues(env: NodeJS.ProcessEnv): string[] {
  return secretNames(env).flatMap((name) => {
    const value = env[name] ?? ''
    return value.length < SHORTEST_VALUE ? [] : [value]
  })
}
