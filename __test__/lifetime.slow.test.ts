/** The end of a sandbox whose shell never becomes ready: the start is given up after 20 s. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { expect, it } from 'vitest'
import { withSandbox } from './helpers/invariants.js'
import * as proc from './helpers/proc.js'
import { rejectionOf } from './helpers/thrown.js'

it('destroy ends what a shell that cannot be used has started, though it stopped its supervisor', () =>
  withSandbox(async ({ directory, tag }) => {
    const shell = path.join(directory, 'shell')
    writeFileSync(shell, '#!/bin/sh\nsleep 60 &\nkill -STOP $PPID\nexec sleep 60\n', { mode: 0o755 })
    const sandbox = new Sandbox({ shell, env: { TAG: tag } })
    expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({ code: 'SPAWN_FAILED' })
    await sandbox.destroy()
    expect(proc.tagged(tag).map(proc.show)).toEqual([])
  }))
