/** NACRE_LOG: what the engine prints about itself, and what its loggers receive. */
import { describe, expect, it } from 'vitest'
import { startHost } from './helpers/host.js'

/** What a program prints that runs one command with this filter. */
async function printedWith(filter: string): Promise<string> {
  const program = `
    const logged = []
    const note = (line) => logged.push(line)
    const sandbox = new Sandbox({ logger: { debug: note, info: note, warn: note, error: note } })
    sandbox.exec('true').then(async () => {
      await sandbox.destroy()
      print('logged ' + logged.length + '.')
    })
  `
  const host = startHost(program, [], { NACRE_LOG: filter })
  expect(await host.ended()).toBe(0)
  return host.output()
}

const REFUSED = 'nacre: NACRE_LOG is not a valid filter'

describe('a wait for input', () => {
  it('is looked for only while a caller asks', async () => {
    const program = `
      const sandbox = new Sandbox()
      const look = async () => {
        const process = await sandbox.startProcess('cat', { pty: true })
        const run = sandbox.execStream('read line; sleep 1', { input: 'pipe' })
        const seen = []
        const observe = async () => {
          for await (const { type } of sandbox.events()) seen.push(type)
        }
        const observing = observe()
        await process.write('x\\n')
        await process.waitForLog('x')
        await run.write('line\\n')
        await run.result
        await sandbox.listProcesses()
        await process.getStatus()
        print('unasked ' + seen.includes('processWaiting') + '.')
        console.error('ASKED')
        print('asked ' + (await process.waitForInput()).program + '.')
        await sandbox.destroy()
        await observing
      }
      look()
    `
    const host = startHost(program, [], { NACRE_LOG: 'nacre_core::process::waiting=trace' })
    expect(await host.ended()).toBe(0)
    const [before = '', after = ''] = host.output().split('ASKED')
    expect(before).toContain('unasked false.')
    expect(before).not.toContain('looking')
    expect(after).toContain('looking whether a program waits for input')
    expect(after).toContain('asked cat.')
  })
})

describe('NACRE_LOG', () => {
  it.each(['debug', 'nacre_core=debug,warn', 'warn, nacre_core::session=debug'])(
    'prints diagnostics with %s, also to the logger',
    async (filter) => {
      const output = await printedWith(filter)
      expect(output).toMatch(/DEBUG nacre_core::session::\w+: shell /)
      expect(output).toMatch(/logged [1-9]\d*\./)
      expect(output).not.toContain(REFUSED)
    },
  )

  it.each(['off', 'warn', 'nacre_core::process=debug'])(
    'prints nothing about sessions with %s',
    async (filter) => {
      expect(await printedWith(filter)).toBe('logged 0.\n')
    },
  )

  it.each(['[span{field=v}]=debug', 'nacre_core=loud'])('refuses %s with a reason', async (filter) => {
    const output = await printedWith(filter)
    expect(output).toContain(`${REFUSED} and 'warn' is used instead: '${filter}'`)
    expect(output).toContain('logged 0.')
  })
})
