/**
 * `nacre job start`: prints the id and exits; the job continues.
 */
import type { Command } from 'commander'
import type { Jobs } from '../../calls/index.js'
import type { Preset } from '../../schema/isolation-rules.js'
import { withExamples } from '../examples.js'
import { printJson, printLine } from '../terminal.js'
import { commandOf, duration, inputOf, isolationOption, variable } from '../values.js'
import { type RootOptions, useJobs, withRoot } from './root.js'

interface Options extends RootOptions {
  id?: string
  name?: string
  cwd?: string
  env?: Record<string, string>
  timeout?: number
  input?: string
  isolation?: Preset
}

export function addStart(job: Command): void {
  const start = withRoot(job.command('start'))
    .description('start a job: one word is shell text, several words are a program and its arguments')
    .argument('<command...>')
    .option('--id <id>', 'the id of the job (default: an id that sorts by time)')
    .option('--name <text>', 'a name for people to read')
    .option('--cwd <directory>', 'run in this directory')
    .option('--env <name=value>', 'set a variable; can be repeated', variable)
    .option('--timeout <time>', 'kill the job after this time, like 10s, 2m or 1h', duration)
    .option('--input <file>', 'a file for standard input; - is the standard input of this program')
    .addOption(isolationOption())
    .passThroughOptions()
    .action(async (words: string[], options: Options, verb: Command) => {
      const { id: jobId, name: processName, cwd, env, timeout, input, isolation, json } = options
      const command = commandOf(words, verb)
      const start = (jobs: Jobs) =>
        jobs.start({ command, jobId, processName, env, timeout, input: inputOf(input) })
      const handle = await useJobs(options, start, { cwd, isolation })
      await (json ? printJson(handle) : printLine(handle.jobId))
    })
  withExamples(start, [
    ["nacre job start --name build 'make all'", 'prints the id of the job'],
    ['nacre job start --timeout 1h -- ./train.sh --epochs 10', 'runs a program with arguments'],
    ['nacre job start --isolation workspace ./build.sh', 'allows writes only here; no secrets, no network'],
    ["gzip -dc data.gz | nacre job start --input - 'sort -u'", 'uses the output of another program as input'],
    ['nacre job logs -f "$(nacre job start \'make all\')"', 'follows the job; Ctrl-C does not end it'],
  ])
}
