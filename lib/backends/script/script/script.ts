/**
 * The supervisor script as it is uploaded: portable POSIX shell, for dash, BusyBox and bash.
 *
 * It is text in TypeScript files, not a file beside them, so that bundlers and `bun build --compile` keep it. In a
 * template literal a backslash and a dollar before a brace are written with one backslash more.
 */
import { createHash } from 'node:crypto'
import { CALLS } from './calls.js'
import { COMMAND } from './command.js'
import { HEADER } from './header.js'
import { PROCESSES } from './processes.js'
import { START } from './start.js'
import { WATCH } from './watch.js'

const DISPATCH = `case $verb in
supervise | guard | run)
  "$verb" "$@"
  exit
  ;;
esac
exec 2>/dev/null
echo '<nacre'
case $verb in
start) start "$@" ;;
status) report_job "$@" ;;
read) read_output "$@" ;;
list) list ;;
cancel) cancel "$@" ;;
remove) remove "$@" ;;
esac
echo 'nacre>'
`

export const SCRIPT = [HEADER, PROCESSES, START, WATCH, COMMAND, CALLS, DISPATCH].join('\n')

/** Its file in the root of jobs. The name changes with the text, so an existing file of that name is the right one. */
export const SCRIPT_NAME = `@supervisor-${createHash('sha256').update(SCRIPT).digest('hex').slice(0, 16)}.sh`
