/** `exec` of node:child_process: a /bin/sh per command. */
import { exec } from 'node:child_process'
import { promisify } from 'node:util'

export const name = 'child_process.exec'

export async function open() {
  return { run: promisify(exec), close: async () => {} }
}
