/** Processes that left their session end with it and with the sandbox. For those of a killed command see the timeouts. */
import { expect } from 'vitest'
import { itInEveryMode } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'

const escapes = (nap: string) =>
  [
    `setsid setsid ${nap} &`,
    `nohup ${nap} >/dev/null 2>&1 &`,
    `(setsid ${nap} &)`,
    `( ( ${nap} & ) & )`,
    `env -i setsid ${nap} &`,
    `bash -c 'trap "" TERM HUP INT; setsid ${nap} & disown -a; exit' &`,
    `bash -c 'trap "" TERM HUP INT; while :; do ${nap}; done' & disown -a`,
    `{ setsid bash -c '${nap}; :' <&- >&- 2>&- & } `,
    `setsid -f $( ((EUID)) || echo setpriv --reuid=65534 --regid=65534 --clear-groups) ${nap}`,
  ].join('\n')

itInEveryMode('nothing escapes the deletion of a session', async ({ sandbox }) => {
  const nap = proc.uniqueSleep()
  const session = await sandbox.createSession({ id: 'escapes' })
  await session.exec(escapes(nap))
  await session.exec('exit 3')
  await session.exec(escapes(nap))
  await sandbox.deleteSession('escapes')
  expect(proc.runs(nap)).toBe(false)
})

itInEveryMode(
  'nothing escapes destroy, whatever has happened to the shell',
  async ({ sandbox }) => {
    const nap = proc.uniqueSleep()
    await sandbox.exec(escapes(nap))
    await sandbox.exec('kill -9 $$')
    await sandbox.exec(escapes(nap))
    const running = sandbox.exec(`${escapes(nap)}\n${nap}`).catch(() => {})
    await sandbox.destroy()
    expect(proc.runs(nap)).toBe(false)
    await running
  },
  { destroys: true },
)
