/** Programs whose own directory is moved, removed or replaced while they run. */
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { startHost } from './helpers/host.js'

/** What a program prints that runs in `<top>/here/now`, with PWD naming a directory in which it must not run. */
async function printed(program: string): Promise<{ lines: string[]; top: string }> {
  const top = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'nacre-cwd-')))
  onTestFinished(() => rmSync(top, { recursive: true, force: true }))
  const setUp = `
    const fs = require('fs')
    const top = process.env.TOP
    fs.mkdirSync(top + '/here/now', { recursive: true })
    fs.mkdirSync(top + '/other')
    fs.writeFileSync(top + '/other/victim', '')
    process.chdir(top + '/here/now')
    process.cwd()
    const show = async (name, call) => print(name + ': ' + await call().then((result) => result.stdout.trim(), (error) => error.code))
    const main = async () => { ${program} }
    main()
  `
  const host = startHost(setUp, [], { TOP: top, PWD: path.join(top, 'other') })
  expect(await host.ended()).toBe(0)
  return { lines: host.output().trim().split('\n'), top }
}

it('runs nothing in the directory that PWD names when its own was removed', async () => {
  const { lines } = await printed(`
    fs.rmdirSync(top + '/here/now')
    for (const cwd of [undefined, '.', '..', '../../other']) {
      const sandbox = new Sandbox({ cwd })
      await show('command', () => sandbox.exec('ls; rm -rf -- *'))
      await show('session', async () => (await sandbox.createSession({ cwd: '../../etc' })).exec('pwd'))
      await sandbox.destroy()
    }
    print('left: ' + fs.readdirSync(top + '/other'))
  `)
  const refused = ['command: CWD_NOT_FOUND', 'session: CWD_NOT_FOUND']
  expect(lines).toEqual([...refused, ...refused, ...refused, ...refused, 'left: victim'])
})

it('runs nothing in another directory that was created in place of its own', async () => {
  const { lines } = await printed(`
    fs.rmdirSync(top + '/here/now')
    fs.mkdirSync(top + '/here/now')
    const sandbox = new Sandbox()
    await show('command', () => sandbox.exec('pwd'))
    await sandbox.destroy()
  `)
  expect(lines).toEqual(['command: CWD_NOT_FOUND'])
})

it('follows its directory to a new name', async () => {
  const { lines, top } = await printed(`
    fs.renameSync(top + '/here', top + '/there')
    for (const cwd of [undefined, '..']) {
      const sandbox = new Sandbox({ cwd })
      await show('command', () => sandbox.exec('pwd'))
      await sandbox.destroy()
    }
  `)
  expect(lines).toEqual([`command: ${top}/there/now`, `command: ${top}/there`])
})

it('starts no job where its own directory was removed', async () => {
  const { lines } = await printed(`
    fs.rmdirSync(top + '/here/now')
    const sandbox = new Sandbox({ jobsRoot: top + '/jobs' })
    for (const cwd of [undefined, '../other']) {
      await show('job', () => sandbox.jobs.start({ command: 'rm -rf -- *', cwd }).then(() => ({ stdout: 'started' })))
    }
    await sandbox.destroy()
    print('left: ' + fs.readdirSync(top + '/other'))
  `)
  expect(lines).toEqual(['job: CWD_NOT_FOUND', 'job: CWD_NOT_FOUND', 'left: victim'])
})
