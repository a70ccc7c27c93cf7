/** What ends an ordinary shell, and what is left of the session after each. */
import { SandboxError } from 'nacre'

/** Prints all kinds of state: directory, plain variable, array, function, shell option. */
const STATE = `echo "$(basename "$PWD") $answer \${list[*]} $(greet you) $(shopt -q nullglob && echo nullglob)"`
const EXPECTED = 'adder 42 a b c hello you nullglob\n'

export async function survival(story, sandbox) {
  story.title('The session survives what ends a shell')
  await story.run(sandbox, 'answer=42; list=(a b c); greet() { echo "hello $1"; }; shopt -s nullglob')
  await expectState(story, sandbox)

  const exit = await story.run(sandbox, 'exit 3')
  story.check('`exit 3` is exit code 3', exit.exitCode === 3 && !exit.success, exit)
  await expectState(story, sandbox)

  const quote = await story.run(sandbox, 'echo "never closed')
  story.check(
    'an unclosed quote is exit code 2 and a message',
    quote.exitCode === 2 && quote.stderr !== '',
    quote,
  )
  await expectState(story, sandbox)

  const strict = await story.run(sandbox, 'set -eu; echo "$undefined_name"; echo not reached')
  story.check('`set -eu` ends the command only', strict.exitCode === 1 && strict.stdout === '', strict)
  await story.run(sandbox, 'set +eu')
  await expectState(story, sandbox)

  story.say('$ sleep 60        (with a timeout of 300 ms)')
  const timeout = await sandbox.exec('echo begun; sleep 60', { timeout: 300 }).catch((error) => error)
  const isTimeout = timeout instanceof SandboxError && timeout.code === 'COMMAND_TIMEOUT'
  story.check('a timeout rejects with COMMAND_TIMEOUT', isTimeout, String(timeout))
  story.check('its error has the output so far', timeout.result?.stdout === 'begun\n', timeout.result)
  await expectState(story, sandbox)

  const killed = await story.run(sandbox, 'kill -9 $$')
  story.check('`kill -9 $$` is SIGKILL', killed.signal === 'SIGKILL' && killed.exitCode === 137, killed)
  story.check('and the result says that the shell was brought back', killed.sessionRestarted, killed)
  await expectState(story, sandbox)
}

async function expectState(story, sandbox) {
  const { stdout } = await sandbox.exec(STATE)
  story.check('directory, variables, function and options are there', stdout === EXPECTED, stdout)
}
