/** The verbs of queues, which `nacre` adds to its own where this package is installed: `nacre worker` and `nacre queue`. */
import type { Command, Finish } from 'nacre/internal/cli'
import { addQueueAdd } from './add.js'
import { addQueueLogs } from './logs.js'
import { addQueueCancel, addQueueList, addQueueStatus } from './verbs.js'
import { addWorker } from './worker.js'

const QUEUE_VERBS = [addQueueAdd, addQueueList, addQueueStatus, addQueueLogs, addQueueCancel]

export function addVerbs(program: Command, finish: Finish): void {
  addWorker(program)
  const queue = program.command('queue').description('manage jobs in a queue for many hosts')
  for (const add of QUEUE_VERBS) add(queue, finish)
}
