/**
 * Bytes as base64 and back, by what every runtime has; newer ones have it built in.
 */

interface Modern {
  toBase64?: () => string
}

const modern = Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array }

/** Arguments of one call of fromCharCode. */
const SLICE = 0x2000

export function toBase64(bytes: Uint8Array): string {
  const builtIn = (bytes as Modern).toBase64
  if (builtIn !== undefined) return builtIn.call(bytes)
  let text = ''
  for (let start = 0; start < bytes.length; start += SLICE)
    text += String.fromCharCode(...bytes.subarray(start, start + SLICE))
  return btoa(text)
}

export function fromBase64(text: string): Uint8Array {
  if (modern.fromBase64 !== undefined) return modern.fromBase64(text)
  const characters = atob(text)
  const bytes = new Uint8Array(characters.length)
  for (let index = 0; index < bytes.length; index++) bytes[index] = characters.charCodeAt(index)
  return bytes
}
