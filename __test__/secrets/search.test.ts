/** The value of a secret is in no memory, file or report of sandboxes, while commands use it and afterwards. */
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { Sandbox, type SandboxEvent, type SandboxOptions } from 'nacre'
import { expect, it } from 'vitest'
import { startProxiedOrigin } from '../helpers/proxied-origin.js'
import { Search } from '../helpers/search.js'
import { temporary } from '../helpers/temporary.js'
import { holds } from '../helpers/until.js'

/** With characters that the forms escape in several ways. */
const VALUE = 'tok/Zx9Kq2Lm7+Wv8Hr3="&5Rt6Yb4'
const REQUESTS = 500

const origin = await startProxiedOrigin()

/** A command with so many requests to a host that repeats the value. */
const many = (count: number, more = '') =>
  `curl -sS ${more} -H "Authorization: Bearer $TOKEN" "https://${origin.target}/echo[1-${count}]" >> replies 2>&1`

it('the value of a secret is nowhere during and after 1,000 requests, in forks, checkpoints and kept sandboxes', async () => {
  const base = temporary('nacre-search-')
  const [cwd = '', stateDir = '', logs = ''] = ['work', 'state', 'logs'].map((name) => path.join(base, name))
  for (const directory of [cwd, logs]) mkdirSync(directory)
  const search = new Search(VALUE)
  const log = (text: string) => search.text('the logger', text)
  const options: SandboxOptions = {
    ...{ cwd, stateDir, keep: 'searched', workspace: { mode: 'copy-on-write', id: 'searched' } },
    logger: { debug: log, info: log, warn: log, error: log },
    isolation: origin.rules({
      log: path.join(logs, 'requests'),
      secrets: { TOKEN: { value: VALUE, hosts: [origin.target], in: ['authorization', 'body'] } },
    }),
  }
  const run = async (sandbox: Pick<Sandbox, 'exec'>, command: string) => {
    const result = await sandbox.exec(command)
    search.text('a result', result)
    search.processes()
    return result
  }
  const used = () => origin.seen.filter(({ authorization }) => authorization === `Bearer ${VALUE}`).length
  let checkpoint = ''
  {
    await using sandbox = new Sandbox(options)
    const events: SandboxEvent[] = []
    const reading = (async () => {
      for await (const event of sandbox.events({ since: 0 })) events.push(event)
    })()
    await run(sandbox, 'set; own=$TOKEN; printf %s "$TOKEN" > kept')
    const session = await sandbox.createSession()
    const running = [sandbox.exec(many(REQUESTS)), session.exec(many(REQUESTS, '--http1.1 -v'))]
    let goesOn = true
    const ended = Promise.all(running).finally(() => {
      goesOn = false
    })
    while (goesOn) {
      search.processes()
      const next = origin.seen.length + 50
      while (goesOn && origin.seen.length < next) await new Promise(setImmediate)
    }
    for (const result of await ended) search.text('a result', result)
    expect(used()).toBe(2 * REQUESTS)
    await run(sandbox, `${many(1, '-d "$TOKEN"')}; tail -c 20000 replies`)
    expect(origin.seen.at(-1)?.body).toBe(VALUE)
    search.text('the history', await (await sandbox.getSession('default'))?.history())
    // Its last program has sent the head of a request, and waits.
    const upload = many(1, '-T -').replace('>> replies', '<> pipe >> replies')
    const service = await sandbox.startProcess(`${many(5)}; cat replies; mkfifo pipe; exec ${upload}`)
    await holds(() => {
      search.processes()
      return search.programs.has('curl')
    })
    search.text('the log of a process', await service.getLogs())
    await service.kill()
    checkpoint = (await sandbox.checkpoint()).id
    const [fork] = await sandbox.fork(1)
    await run(fork as Sandbox, many(5))
    await fork?.destroy()
    search.files(base)
    await sandbox.destroy()
    await reading
    expect(events.filter(({ type }) => type === 'request').length).toBeGreaterThan(0)
    search.text('the events', events)
    search.files(base)
  }
  {
    await using sandbox = new Sandbox(options)
    // What was kept, and what the checkpoint has.
    for (const restore of [async () => {}, () => sandbox.rollback(checkpoint)]) {
      await restore()
      const { stdout } = await run(sandbox, 'echo "$own"; cat kept')
      expect(new Set(stdout.split('\n')).size).toBe(1)
      const before = used()
      await run(sandbox, many(5))
      expect(used()).toBe(before + 5)
      search.files(base)
    }
    expect([...search.found]).toEqual([])
    // Its shells, too.
    expect(search.programs.size).toBeGreaterThan(1)
    // An archive has what another place keeps of it.
    const [file, elsewhere] = ['archive', 'elsewhere'].map((name) => path.join(base, name))
    mkdirSync(elsewhere as string)
    const [fork] = await sandbox.fork(1)
    await fork?.suspend(file as string)
    const { isolation } = options
    const there = { cwd: elsewhere, stateDir: path.join(base, 'there'), keep: 'moved', isolation }
    const moved = await Sandbox.resume(file as string, { ...there, workspace: 'copy-on-write' })
    await run(moved.sandbox, 'echo "$own"; cat kept')
    await moved.sandbox.destroy()
    search.files(base)
    // It would have been found.
    await run(sandbox, `own='${VALUE}'; printf %s "$own" | base64 -w0 > kept`)
    search.files(base)
    expect([...search.found].join()).toMatch(/: memory: [\s\S]*kept: /)
    await sandbox.workspace.discard()
  }
})
