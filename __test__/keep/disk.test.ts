/** A disk that is full at any step of writing: the state before stays, and the logger learns of it. */
import { expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { withSmallDisk } from '../helpers/namespaces.js'
import { temporary } from '../helpers/temporary.js'

/**
 * For each number of free pages, changes a state of several pages, ends the sandbox, and looks at what the next one has. The
 * file is written as a whole, so it is the state before or after.
 */
const program = (directory: string) => `
  const fs = require('fs')
  const place = '${directory}'
  const errors = []
  const logger = { debug() {}, info() {}, warn() {}, error: (message) => errors.push(message) }
  const open = () => new Sandbox({ stateDir: place, keep: 'full', logger })
  const fill = (left) => {
    fs.rmSync(place + '/ballast', { force: true })
    try {
      for (;;) fs.writeFileSync(place + '/ballast', Buffer.alloc(4096), { flag: 'a' })
    } catch (error) {
      if (error.code !== 'ENOSPC') throw error
    }
    const { size } = fs.statSync(place + '/ballast')
    fs.truncateSync(place + '/ballast', size - left * 4096)
  }
  ;(async () => {
    let before = 0
    const outcomes = new Set()
    for (let left = 0; left < 16; left++) {
      const sandbox = open()
      const now = left + 1
      await sandbox.exec('true')
      fill(left)
      await sandbox.exec('n=' + now + '; printf -v long_' + now + ' %03000d 0')
      await sandbox.destroy()
      const files = fs.readdirSync(place + '/kept/full').sort().join()
      // Another program needs no room to go on.
      const next = open()
      const n = Number((await next.exec('echo \${n:-0}')).stdout)
      if (n !== now && n !== before) print('a state of another command: ' + n + ' with ' + left)
      if (n !== now && errors.length === 0) print('nothing was reported with ' + left)
      if (!/^host(,session-default)?$/.test(files)) print('left over: ' + files)
      outcomes.add(n === now)
      before = n
      errors.length = 0
      await next.destroy()
      fs.rmSync(place + '/ballast')
    }
    print([...outcomes].sort().join())
  })().catch((error) => print(String(error.stack)))`

it('leaves the state before, or after, and nothing else', async () => {
  const directory = temporary('nacre-keep-disk-')
  const host = startHost(program(directory), withSmallDisk(directory))
  expect([await host.ended(60_000), host.output()]).toEqual([0, 'false,true\n'])
  await expectGone(host.tag)
})
