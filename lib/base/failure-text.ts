/** The message of a failed command: the command, how it ended, how long it ran, and the last lines of stderr. */

const LONGEST_COMMAND = 200
const MOST_LINES = 10
const MOST_CHARACTERS = 2000

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** One sentence, and the same with the end of stderr appended. */
export interface FailureText {
  shortMessage: string
  message: string
}

/** The members of a result that the message uses. */
interface FailedRun {
  command: string
  duration: number
  stderr: string | Uint8Array
}

/** `what` is what happened, like `ended with exit code 2`. */
export function failureText(result: FailedRun, what: string): FailureText {
  const { command, duration, stderr } = result
  const shortMessage = `\`${shownCommand(command)}\` ${what} after ${durationText(duration)}`
  const tail = lastLines(stderr)
  return { shortMessage, message: tail === '' ? shortMessage : `${shortMessage}\n${tail}` }
}

/** The command, cut after 200 characters. */
export function shownCommand(command: string): string {
  return command.length > LONGEST_COMMAND ? `${command.slice(0, LONGEST_COMMAND)}...` : command
}

/** `12 ms`, `3.4 s`, `5 min 6 s`. */
export function durationText(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`
  const seconds = Math.round(ms / 1000)
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
}

/** The last lines, without the final newline. */
function lastLines(output: string | Uint8Array): string {
  const end =
    typeof output === 'string'
      ? output.slice(-MOST_CHARACTERS)
      : decoder.decode(output.subarray(-MOST_CHARACTERS))
  const lines = end.trimEnd().split('\n')
  const isCut = output.length > MOST_CHARACTERS
  return (isCut && lines.length > 1 ? lines.slice(1) : lines).slice(-MOST_LINES).join('\n')
}
