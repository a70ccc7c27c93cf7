/** Bytes that are hard to decode: plain ones, continuations and starts of characters, in any order. */
export function randomBytes(length: number): Buffer {
  const bytes = Buffer.alloc(length)
  for (let index = 0; index < length; index++) {
    const kind = Math.random()
    if (kind < 0.4) bytes[index] = 0x41
    else if (kind < 0.7) bytes[index] = 0x80 + Math.floor(Math.random() * 0x40)
    else bytes[index] = 0xc0 + Math.floor(Math.random() * 0x40)
  }
  return bytes
}
