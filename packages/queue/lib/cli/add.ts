/**
 * `nacre queue add`: prints the id and exits; a worker runs the job.
 */
import { type Command, flags, printing, withExamples } from 'nacre/internal/cli'
import { type QueueOptions, useQueue, withQueue } from './connection.js'

interface Options extends QueueOptions {
  id?: string
  cwd?: string
  env?: Record<string, string>
  timeout?: number
  input?: string
  attempts?: number
  backoff?: number
  priority?: number
  delay?: number
}

export function addQueueAdd(group: Command): void {
  const add = withQueue(group.command('add'))
    .description('add a job: one word is shell text, several words are a program and its arguments')
    .argument('<command...>')
    .option('--id <id>', 'the id of the job; if the queue has it already, nothing is added')
    .option('--cwd <directory>', 'run in this directory of the host')
    .option('--env <name=value>', 'set a variable; can be repeated', flags.variable)
    .option('--timeout <time>', 'kill an attempt after this time, like 10s, 2m or 1h', flags.duration)
    .option('--input <file>', 'a file for standard input; - is the standard input of this program')
    .option('--attempts <number>', 'the maximum number of attempts (default: 1)', flags.wholeNumber)
    .option('--backoff <time>', 'the pause before a retry', flags.duration)
    .option('--priority <number>', 'jobs with lower numbers run first (default: 0)', flags.wholeNumber)
    .option('--delay <time>', 'the time before the job may run', flags.duration)
    .passThroughOptions()
    .action(async (words: string[], options: Options, verb: Command) => {
      const { id, cwd, env, timeout, input, attempts, backoff, priority, delay, json } = options
      const settings = { id, cwd, env, timeout, attempts, backoff, priority, delay }
      const given = { command: flags.commandOf(words, verb), ...settings, input: flags.inputOf(input) }
      const job = await useQueue(options, (queue) => queue.add(given))
      await (json ? printing.printJson(job) : printing.printLine(job.id))
    })
  withExamples(add, [
    ["nacre queue add 'make all'", 'prints the id of the job'],
    ['nacre queue add --attempts 3 --backoff 10s -- ./crawl.sh', 'makes up to three attempts'],
    ['nacre queue logs -f "$(nacre queue add \'make all\')"', 'follows the job on any host'],
  ])
}
