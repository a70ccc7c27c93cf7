/** The machine that the numbers were measured on. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

function ask(program, args, cwd) {
  try {
    return execFileSync(program, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return 'unknown'
  }
}

/**
 * Name and value of each fact. `root` is the repository, `runtimes` are the programs by name.
 *
 * @returns {Record<string, string>}
 */
export function describeMachine(root, runtimes) {
  const version = (file) => JSON.parse(readFileSync(path.join(root, file), 'utf8')).version
  const gib = (os.totalmem() / 1024 ** 3).toFixed(0)
  const commit = ask('git', ['describe', '--always', '--dirty'], root)
  return {
    Machine: `${os.cpus().length} cores (${os.cpus()[0]?.model.trim()}), ${gib} GiB of memory, Linux ${os.release()}`,
    'Load before the run': os.loadavg()[0].toFixed(2),
    nacre: `${version('package.json')} (${commit})`,
    ...Object.fromEntries(
      Object.entries(runtimes).map(([name, program]) => [name, ask(program, ['--version'])]),
    ),
    bash: ask('bash', ['-c', 'echo $BASH_VERSION']),
    execa: version('node_modules/execa/package.json'),
    Date: new Date().toISOString().slice(0, 10),
  }
}
