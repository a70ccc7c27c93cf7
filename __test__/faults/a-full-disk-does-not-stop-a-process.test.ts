import { describe, expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { withSmallDisk } from '../helpers/namespaces.js'
import { temporary } from '../helpers/temporary.js'

describe('a process whose log finds no room on the disk', () => {
  it('runs to its end; lost bytes are counted, and the log continues when there is room again', async () => {
    const directory = temporary('nacre-full-')
    const program = `
      const sandbox = new Sandbox({ stateDir: '${directory}' })
      ;(async () => {
        const process = await sandbox.startProcess(
          'head -c 20000000 /dev/zero; echo full; while [ ! -e ${directory}/go ]; do sleep 0.01; done; ' +
          'head -c 2000000 /dev/zero; echo end', { logLimit: 100000000 })
        await process.waitForLog('full', { cursor: 19000000 })
        const lost = (await process.getLogs({ encoding: 'buffer' })).truncated
        print(String(lost > 10000000 && lost < 20000000))
        await sandbox.exec('mount -o remount,size=64m none ${directory}; touch ${directory}/go')
        const exit = await process.waitForExit()
        const { stdout, truncated } = await process.getLogs({ encoding: 'buffer' })
        print([exit.exitCode, truncated === lost, stdout.length + truncated === 22000009].join())
        print(Buffer.from(stdout).subarray(-4).toString().trim())
        await sandbox.destroy()
        print(String(require('fs').readdirSync('${directory}')))
      })()`
    const host = startHost(program, withSmallDisk(directory))
    expect([await host.ended(), host.output()]).toEqual([0, 'true\n0,true,true\nend\ngo\n'])
    await expectGone(host.tag)
  })
})
