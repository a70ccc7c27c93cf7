/** The command line of the queue. */
import { Queue } from './queue.js'

const USAGE = `usage:
  node main.js add <name> <command>   puts a job into the queue
  node main.js work [<concurrency>]   starts waiting jobs until none is left (default: 2 at a time)
  node main.js list                   shows all jobs
  node main.js log <name>             prints the output of a job`

const [verb, ...args] = process.argv.slice(2)
const queue = await Queue.open(process.env.QUEUE_DIR ?? 'queue')

if (verb === 'add' && args.length === 2) {
  await queue.add(args[0], args[1])
} else if (verb === 'work' && args.length <= 1) {
  await queue.work(Number(args[0] ?? 2), (line) => console.log(line))
} else if (verb === 'list' && args.length === 0) {
  for (const { name, state } of await queue.list()) console.log(`${name}: ${state}`)
} else if (verb === 'log' && args.length === 1) {
  await queue.printLog(args[0], process.stdout)
} else {
  console.error(USAGE)
  process.exitCode = 2
}
