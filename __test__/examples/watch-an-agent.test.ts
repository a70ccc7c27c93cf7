/** examples/watch-an-agent, run to its end, with the person played. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { gunzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { openExample } from '../helpers/example.js'

it('lets a person type a password, which no recording has', async () => {
  const example = await openExample('watch-an-agent', ['@nacre/console', '@nacre/server'])
  try {
    const { exitCode, stdout, stderr } = await example.run('main.js', '--play')
    expect([exitCode, stderr]).toEqual([0, ''])
    expect(stdout.replace(/\S+#token=\S+/, 'URL')).toBe(`open URL
the person has logged in
nacre replay recordings/process-login-0001.cast.gz
nacre replay recordings/session-build-0001.cast.gz
`)
    const file = path.join(example.directory, 'recordings/process-login-0001.cast.gz')
    const recording = String(gunzipSync(readFileSync(file)))
    expect(recording).toContain('Password: ')
    expect(recording).toContain('logged in')
    expect(recording).not.toContain('a password')
  } finally {
    example.remove()
  }
}, 60_000)
