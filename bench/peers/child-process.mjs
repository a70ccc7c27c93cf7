/** `exec` of node:child_process: a /bin/sh for each command. */
import { exec } from 'node:child_process'
import { promisify } from 'node:util'

export const name = 'child_process.exec'

export async function open() {
  return { run: promisify(exec), close: async () => {} }
}
