/**
 * The supervisor script as it is uploaded: portable POSIX shell, for dash, BusyBox and bash.
 *
 * The text is in TypeScript files, not in a separate file, so that bundlers and `bun build --compile` keep it. In a
 * template literal, a backslash and a dollar before a brace need an additional backslash.
 */
import { crypto } from 'nacre/internal'
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

let name: string | undefined

/**
 * The script's file in the root of jobs. The name contains a hash of the text, so an existing file of that name is the
 * right script.
 */
export function scriptName(): string {
  name ??= `@supervisor-${crypto().createHash('sha256').update(SCRIPT).digest('hex').slice(0, 16)}.sh`
  return name
}
