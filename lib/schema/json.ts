/** Values as they stand in JSON: bytes are `{ base64 }`, a variable that is unset is null. */
import type { CheckedCommand } from './command.js'
import type { EnvLists } from './env.js'
import type { FromBase64 } from './option.js'

/** Text, or bytes. */
export type WireData = string | { base64: string }

export function encodeCommand(command: CheckedCommand): string | string[] {
  return command.text ?? command.argv
}

export function encodeEnv(env: EnvLists): Record<string, string | null> {
  return Object.fromEntries(env.names.map((name, index) => [name, env.values[index] ?? null]))
}

export function decodeEnv(json: Record<string, string | null>): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(json).map(([name, value]) => [name, value ?? undefined]))
}

export function decodeData(json: WireData, fromBase64: FromBase64): string | Uint8Array {
  return typeof json === 'string' ? json : fromBase64(json.base64)
}
