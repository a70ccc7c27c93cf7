import { execFileSync } from 'node:child_process'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Isolation } from 'nacre'

/** What a program in a process of its own imports. */
export const BUILT = pathToFileURL(path.join(path.dirname(path.dirname(__dirname)), 'dist', 'index.js')).href

/**
 * The output of commands in a process of their own: what a machine offers is determined once in each. Each command has
 * a session whose shell starts in `work` below `directory`, and the sandbox has resolved their rules before all of them.
 */
export function runInTier(
  tier: string,
  directory: string,
  isolation: Isolation,
  ...commands: string[]
): string {
  return runInTierOf([], tier, directory, isolation, ...commands)
}

/** The same, behind the first words of another command: one that makes mounts, for example. */
export function runInTierOf(
  words: string[],
  tier: string,
  directory: string,
  isolation: Isolation,
  ...commands: string[]
): string {
  const program = `
    const { Sandbox } = await import(${JSON.stringify(BUILT)})
    const sandbox = new Sandbox({ cwd: 'work', isolation: ${JSON.stringify(isolation)} })
    for (const command of ${JSON.stringify(commands)})
      await sandbox.createSession().then((session) => session.exec(command, { mergeOutput: true })).then(({ all }) => process.stdout.write(all), (error) => console.log(error.code))
    await sandbox.destroy()`
  const [first = '', ...rest] = [...words, process.execPath, '--input-type=module', '-e', program]
  return execFileSync(first, rest, {
    cwd: directory,
    encoding: 'utf8',
    env: { ...process.env, NACRE_ISOLATION: tier },
  })
}
