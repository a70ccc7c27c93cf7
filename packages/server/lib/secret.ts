/** A text that callers must know, like a token. */
import { crypto } from 'nacre/internal'

export class Secret {
  readonly #digest: Buffer

  constructor(text: string) {
    this.#digest = digest(text)
  }

  /** Digests have one length, and comparing them takes the same time wherever they differ. */
  is(given: string): boolean {
    return crypto().timingSafeEqual(digest(given), this.#digest)
  }
}

function digest(text: string): Buffer {
  return crypto().createHash('sha256').update(text).digest()
}
