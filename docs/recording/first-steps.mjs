/** What docs/public/first-steps.cast shows: see record.sh. */
import { Sandbox } from 'nacre'

const sandbox = new Sandbox()

/** Shows a command like a shell, and how it has ended unless that is `exit 0`. */
async function run(command, options) {
  process.stdout.write('\x1b[32m>\x1b[0m ')
  for (const letter of command) {
    process.stdout.write(letter)
    await pause(25)
  }
  await pause(400)
  console.log()
  const { stdout, exitCode, signal } = await sandbox.exec(command, options).catch(({ result }) => result)
  process.stdout.write(stdout)
  if (exitCode !== 0) console.log(`\x1b[33m${signal ?? `exit ${exitCode}`}\x1b[0m`)
  await pause(900)
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds))

await run('cd /usr/share; export NAME=nacre')
await run('greet() { echo "hello $NAME, from $PWD"; }')
await run('greet')
await run('exit 3')
await run('kill -9 $$')
await run('greet')
await run('sleep 1234 & setsid sleep 1234', { timeout: 300 })
await run('pgrep -fc "sleep 1234"')
await sandbox.destroy()
