import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { onTestFinished } from 'vitest'

/** A directory whose name begins with a prefix. It is removed when the test has finished. */
export function temporary(prefix: string, parent = os.tmpdir()): string {
  const directory = realpathSync(mkdtempSync(path.join(parent, prefix)))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true, maxRetries: 5 }))
  return directory
}
