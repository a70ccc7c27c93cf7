/**
 * Common options of all job verbs: the directory of jobs, and JSON.
 */
import type { Command } from 'commander'
import type { Jobs, SandboxOptions } from '../../calls/index.js'

export interface RootOptions {
  root?: string
  json?: boolean
}

/** Adds the two options. */
export function withRoot(command: Command): Command {
  return command
    .option(
      '--root <directory>',
      'the directory of jobs (default: <tmp>/sandbox-jobs, or <tmp>/sandbox-jobs-<uid>)',
    )
    .option('--json', 'print JSON')
}

/** Calls a function with the jobs of a root; they continue afterwards. */
export async function useJobs<T>(
  { root }: RootOptions,
  use: (jobs: Jobs) => Promise<T>,
  options?: Pick<SandboxOptions, 'cwd' | 'isolation'>,
): Promise<T> {
  const { Sandbox } = await import('../../backends/native/sandbox.js')
  await using sandbox = new Sandbox({ ...options, jobsRoot: root })
  return await use(sandbox.jobs)
}
