/**
 * The verbs, and their common settings. Each verb is a file, which adds itself to the program. companions.ts adds others.
 */
import { Command } from 'commander'
import { VERSION } from '../addon/platforms.js'
import { addCompletion } from './completion.js'
import { addDown } from './container/down.js'
import { addShell } from './container/shell.js'
import { addUp } from './container/up.js'
import { addDoctor } from './doctor.js'
import { withExamples } from './examples.js'
import { addExec } from './exec.js'
import { addCancel } from './job/cancel.js'
import { addLogs } from './job/logs.js'
import { addList } from './job/ls.js'
import { addPrune } from './job/prune.js'
import { addRemove } from './job/rm.js'
import { addStart } from './job/start.js'
import { addStatus } from './job/status.js'
import { addWait } from './job/wait.js'
import { addKeep } from './keep.js'
import { addLearn } from './learn.js'
import { addAttach } from './remote/attach.js'
import { addCp } from './remote/cp.js'
import { addServerLogs } from './remote/logs.js'
import { addLs } from './remote/ls.js'
import { addPs } from './remote/ps.js'
import { nearSuggestions } from './suggestion.js'
import { addResume, addSuspend } from './suspend.js'
import { addTry } from './try.js'
import type { Finish, Verb } from './verb.js'
import { addWhy } from './why.js'
import { addWorkspace } from './workspace.js'

const VERBS: Verb[] = [
  ...[
    addExec,
    addTry,
    addLearn,
    addWhy,
    addWorkspace,
    addKeep,
    addSuspend,
    addResume,
    addUp,
    addShell,
    addDown,
  ],
  ...[addPs, addServerLogs, addAttach, addCp, addLs, addDoctor, addCompletion],
]
const JOB_VERBS: Verb[] = [addStart, addList, addStatus, addLogs, addWait, addCancel, addRemove, addPrune]

export function createProgram(finish: Finish): Command {
  const program = new Command('nacre')
    .description('Runs shell commands, starts durable jobs, and serves both over HTTP.')
    .version(VERSION, '-V, --version')
    .enablePositionalOptions()
    // Subcommands created from here on inherit both.
    .exitOverride()
    .showHelpAfterError('(add --help for the options)')
    .configureOutput(nearSuggestions)
  for (const add of VERBS) add(program, finish)
  const job = program.command('job').description('manage durable jobs, which outlive this program')
  for (const add of JOB_VERBS) add(job, finish)
  withExamples(program, [
    ["nacre exec 'cd app && make'", 'one word is shell text'],
    ['nacre exec --timeout 2m -- make -j4', 'several words are a program and its arguments'],
    ['nacre shell', 'opens a shell in a Linux container with the project'],
    ['nacre try -- ./agent', 'shows what a program changed before it becomes real'],
    ["nacre job start 'make all'", 'starts a job that outlives this program; prints its id'],
    ['nacre job logs -f <id>', 'prints the output until the job ends'],
    ['nacre serve --port 4747', 'serves a sandbox over HTTP'],
    ['nacre worker --concurrency 4', 'runs jobs of a queue; `nacre queue add` adds them'],
    ['nacre cp data.csv remote:data.csv', 'copies a file to a sandbox on a server'],
  ])
  return program
}
