/** Secrets in forks and checkpoints: shells and files have the placeholders, and nothing has the values. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { Sandbox, type SandboxOptions } from 'nacre'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startOrigin, type TlsOrigin } from '../helpers/origin.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf } from '../helpers/thrown.js'

const VALUE = `ghp_${'Zx9Kq2Lm7'.repeat(4)}`
const OWN = 'the-secret-of-a-session'

let origin: TlsOrigin
beforeAll(async () => {
  origin = await startOrigin()
})
afterAll(() => origin.close())

/** Sends the credential that is in a file and the one of a variable; returns what the server got. */
async function sent(sandbox: Pick<Sandbox, 'exec'>, variable = 'TOKEN'): Promise<(string | undefined)[]> {
  const from = origin.seen.length
  const url = `https://localhost:${origin.port}/`
  const { all } = await sandbox.exec(
    `curl -sS -H "Authorization: token $${variable}" ${url}; [ ! -e file ] || curl -sS -H "Authorization: token $(cat file)" ${url}`,
    { mergeOutput: true },
  )
  expect(all).toMatch(/^(hello)+$/)
  return origin.seen.slice(from).map(({ authorization }) => authorization?.replace('token ', ''))
}

function optionsIn(base: string): SandboxOptions {
  mkdirSync(path.join(base, 'real'))
  const hosts = [`localhost:${origin.port}`]
  const network = { allow: [], authorities: [origin.authority], secrets: { TOKEN: { value: VALUE, hosts } } }
  return {
    cwd: path.join(base, 'real'),
    stateDir: path.join(base, 'state'),
    workspace: { mode: 'copy-on-write', id: 'task' },
    isolation: { network },
  }
}

/** The files that have one of the values. */
const files = (directory: string) =>
  [VALUE, OWN]
    .map((value) => spawnSync('grep', ['-rlaF', value, directory], { encoding: 'utf8' }).stdout)
    .join('')

const token = async (sandbox: Pick<Sandbox, 'exec'>) => (await sandbox.exec('printf %s "$TOKEN"')).stdout

describe('the placeholders of secrets', () => {
  it('stay in forks, after rollbacks, and in checkpoints that another sandbox restores', async () => {
    const base = temporary('nacre-secrets-')
    const options = optionsIn(base)
    let placeholder = ''
    let checkpoint = ''
    {
      await using sandbox = new Sandbox(options)
      placeholder = await token(sandbox)
      await sandbox.exec('printf %s "$TOKEN" > file; kept=$TOKEN')
      checkpoint = (await sandbox.checkpoint()).id
      expect(await sent(sandbox)).toEqual([VALUE, VALUE])
      const [fork] = await sandbox.fork(1)
      expect(await token(fork as Sandbox)).toBe(placeholder)
      expect(await sent(fork as Sandbox, 'kept')).toEqual([VALUE, VALUE])
      await fork?.destroy()
      await sandbox.exec('kept=; rm file')
      await sandbox.rollback(checkpoint)
      expect(await sent(sandbox, 'kept')).toEqual([VALUE, VALUE])
      expect(files(base)).toBe('')
    }
    {
      await using sandbox = new Sandbox(options)
      const drawn = await token(sandbox)
      expect(drawn).not.toBe(placeholder)
      await sandbox.rollback(checkpoint)
      expect(await token(sandbox)).toBe(placeholder)
      expect(await sent(sandbox, 'kept')).toEqual([VALUE, VALUE])
      const session = await sandbox.createSession()
      expect(await token(session)).toBe(placeholder)
      const same = await sandbox.createSession({ isolation: options.isolation })
      expect(await token(same)).toBe(placeholder)
      expect(await sent(same)).toEqual([VALUE, VALUE])
      const [fork] = await sandbox.fork(1)
      expect(await sent(fork as Sandbox, 'kept')).toEqual([VALUE, VALUE])
      expect(await token(await (fork as Sandbox).createSession())).toBe(placeholder)
      await fork?.destroy()
      expect((await sandbox.exec(`grep -rlF '${VALUE}' . "$TMPDIR"`)).stdout).toBe('')
      await sandbox.exec('rm file')
      const again = (await sandbox.checkpoint()).id
      await sandbox.rollback(again)
      expect(await sent(sandbox, 'kept')).toEqual([VALUE])
      expect(files(base)).toBe('')
      await sandbox.workspace.discard()
    }
    execFileSync('rm', ['-rf', base])
  })

  it('of a session are restored with its value, which no other program has', async () => {
    const base = temporary('nacre-secrets-')
    const options = optionsIn(base)
    const secrets = { MINE: { value: OWN, hosts: [`localhost:${origin.port}`] } }
    const isolation = { network: { allow: [], secrets } }
    let checkpoint = ''
    {
      await using sandbox = new Sandbox(options)
      const session = await sandbox.createSession({ id: 'own', isolation })
      expect(await sent(session, 'MINE')).toEqual([OWN])
      checkpoint = (await sandbox.checkpoint()).id
      await sandbox.deleteSession('own')
      await sandbox.rollback(checkpoint)
      const restored = await sandbox.getSession('own')
      expect(await sent(restored as Sandbox & typeof session, 'MINE')).toEqual([OWN])
      expect(files(base)).toBe('')
    }
    {
      await using sandbox = new Sandbox(options)
      const error = await rejectionOf(sandbox.rollback(checkpoint))
      expect(error).toMatchObject({ code: 'WORKSPACE_UNSUPPORTED' })
      expect(String(error)).toContain('has the secret MINE of its own')
      await sandbox.workspace.discard()
    }
    execFileSync('rm', ['-rf', base])
  })
})
