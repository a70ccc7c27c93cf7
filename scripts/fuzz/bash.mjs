/** The results of an ordinary bash: the reference for outputs and exit codes. */
import { spawnSync } from 'node:child_process'

const known = new Map()

/** The environment of the references and of the sandbox. */
export const environment = {
  PATH: '/usr/local/bin:/usr/bin:/bin',
  HOME: '/',
  LANG: 'C.UTF-8',
}

/** Runs `bash OPTIONS -c TEXT` and returns its output and status. Results are cached. */
export function plainBash(text, options = []) {
  const key = JSON.stringify([options, text])
  if (!known.has(key)) known.set(key, run(text, options))
  return known.get(key)
}

function run(text, options) {
  const { stdout, stderr, status, signal } = spawnSync(
    'bash',
    ['--norc', '--noprofile', ...options, '-c', text, 'bash'],
    { env: environment, cwd: '/', encoding: 'latin1', stdio: ['ignore', 'pipe', 'pipe'], timeout: 10_000 },
  )
  return { stdout, stderr, status, signal }
}

/** The exit code of a text, and whether a line after it would run, in a bash with these options. */
export function ending(text, options) {
  const more = plainBash(`${text}\n\\builtin echo CONTINUES`, options)
  return { continues: more.stdout.endsWith('CONTINUES\n'), code: plainBash(text, options).status }
}

/** Quotes a text for bash. */
export function quote(text) {
  return `'${text.replaceAll("'", "'\\''")}'`
}
