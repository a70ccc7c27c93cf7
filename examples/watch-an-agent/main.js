/** An agent works in two sessions, and needs a person for a password. */
import { randomBytes } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { record } from '@nacre/console'
import { serve } from '@nacre/server'
import { Sandbox } from 'nacre'
import { playPerson } from './person.js'

const token = randomBytes(24).toString('base64url')
const sandbox = new Sandbox()
const recorder = await record(sandbox, { directory: 'recordings' })
const serving = await serve(sandbox, { port: 0, token, console: true })
try {
  console.log(`open ${serving.url}/console#token=${token}`)
  await Promise.all([build(), deploy()])
} finally {
  await recorder.close()
  await serving.close()
  await sandbox.destroy()
}
for (const file of (await readdir('recordings')).sort()) console.log(`nacre replay recordings/${file}`)

/** What the agent does in its first session. Replace it with the commands of your model. */
async function build() {
  const session = await sandbox.createSession({ id: 'build' })
  for (const command of [
    'cd "$(mktemp -d)"',
    'for n in 1 2 3; do echo "compiling part $n"; sleep 0.2; done',
    'echo done > result',
  ])
    await session.exec(command)
}

/** What it does in the second: a program asks for a password. */
async function deploy() {
  const session = await sandbox.createSession({ id: 'deploy' })
  const login = await session.startProcess(
    'read -rsp "Password: " password; echo; [ "${#password}" -ge 4 ] && echo "logged in"',
    { processId: 'login', pty: true },
  )
  if (process.argv.includes('--play')) await playPerson(serving.url, token)
  const { exitCode } = await login.waitForExit()
  console.log(exitCode === 0 ? 'the person has logged in' : 'the login failed')
}
