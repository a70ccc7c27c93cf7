/** The files of long recordings, and the limits of the directory. */
import { existsSync, mkdirSync, readdirSync, rmSync, truncateSync, utimesSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { record } from '@nacre/console'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../../../__test__/helpers/invariants.js'
import { holds } from '../../../__test__/helpers/until.js'
import { filesOf, onlyCast, readCast, screenAfter, screenOf, withDirectory } from './places.js'

const MIB = 1024 * 1024

describe('a long recording', () => {
  it('has several files, each of which can be played alone', () =>
    withDirectory((directory) =>
      withSandbox(async ({ sandbox }) => {
        await using recorder = await record(sandbox, { directory })
        const command = "printf '\\033[31mred\\033[0m\\n'; seq 2600000; printf '\\033[3;4Hend'"
        const process = await sandbox.startProcess(command, { pty: { cols: 50, rows: 8 }, processId: 'long' })
        await process.waitForExit()
        const { stdout } = await process.getLogs()
        await recorder.close()
        const casts = filesOf(directory, 'process-long').map(readCast)
        expect(casts.length).toBeGreaterThan(1)
        const total = casts.reduce((sum, { output }) => sum + output.length, 0)
        expect(total).toBeGreaterThanOrEqual(stdout.length)
        for (const { header } of casts) expect(header.term).toMatchObject({ cols: 50, rows: 8 })
        // The second begins with the screen at the end of the first.
        const [first, second] = casts
        const begin = second && { ...second, events: second.events.slice(0, 1) }
        expect(begin && (await screenOf(begin))).toBe(first && (await screenOf(first)))
        const last = casts.at(-1)
        expect(last && (await screenOf(last))).toBe(await screenAfter(50, 8, stdout.slice(-MIB)))
      }),
    ))

  it('is short when its process prints without end, and delays nothing', () =>
    withDirectory((directory) =>
      withSandbox(async ({ sandbox }) => {
        await using recorder = await record(sandbox, { directory })
        const process = await sandbox.startProcess('exec yes 0123456789', { logLimit: MIB, processId: 'yes' })
        await holds(() => filesOf(directory, 'process-yes').length > 0)
        for (let call = 0; call < 20; call++) await sandbox.exec('true')
        await process.kill()
        await recorder.close()
        const casts = filesOf(directory, 'process-yes').map(readCast)
        expect(casts.flatMap(({ comments }) => comments).join()).toMatch(
          /\d+ bytes of output are missing here/,
        )
        expect(casts.at(-1)?.events.at(-1)?.[1]).toBe('x')
      }),
    ))
})

describe('the directory', () => {
  it('keeps to its limit: the oldest files go first', () =>
    withDirectory((directory) =>
      withSandbox(async ({ sandbox }) => {
        mkdirSync(directory, { mode: 0o700 })
        for (const [at, name] of [
          'process-b-0007.cast',
          'process-a-0001.cast.gz',
          'session-c-0001.cast',
        ].entries()) {
          const file = path.join(directory, name)
          writeFileSync(file, '')
          truncateSync(file, 30 * MIB)
          utimesSync(file, 1000 + at, 1000 + at)
        }
        writeFileSync(path.join(directory, 'process-a-0002.cast.gz.part'), 'half')
        writeFileSync(path.join(directory, 'other'), 'kept')
        await using recorder = await record(sandbox, { directory, limit: 64 * MIB })
        expect(readdirSync(directory).sort()).toEqual([
          'other',
          'process-a-0001.cast.gz',
          'session-c-0001.cast',
        ])
        const process = await sandbox.startProcess('echo hello', { processId: 'a' })
        await process.waitForExit()
        await recorder.close()
        expect(filesOf(directory, 'process-a').map((file) => path.basename(file))).toEqual([
          'process-a-0001.cast.gz',
          'process-a-0002.cast.gz',
        ])
      }),
    ))

  it('may be away for some time: commands go on, and the recording too when it is back', () =>
    withDirectory((directory) =>
      withSandbox(async ({ sandbox }) => {
        const warnings: string[] = []
        const warn = (message: string) => warnings.push(message)
        const logger = { debug() {}, info() {}, warn, error: warn }
        await using recorder = await record(sandbox, { directory, logger })
        rmSync(directory, { recursive: true })
        for (const text of ['one', 'two'])
          expect((await sandbox.exec(`echo ${text}`)).stdout).toBe(`${text}\n`)
        await holds(() => warnings.length > 0)
        expect(existsSync(directory)).toBe(false)
        mkdirSync(directory, { mode: 0o700 })
        await holds(() => filesOf(directory, 'session-default').length > 0)
        await sandbox.exec('echo three')
        await recorder.close()
        const { output } = onlyCast(directory, 'session-default')
        expect(output.match(/^(?:one|two|three)\r$/gm)).toEqual(['one\r', 'two\r', 'three\r'])
        expect(warnings).toEqual([expect.stringContaining('the recording session-default cannot be written')])
      }),
    ))

  it('may be away for good: the recorder still ends', () =>
    withDirectory((directory) =>
      withSandbox(async ({ sandbox }) => {
        const recorder = await record(sandbox, { directory })
        rmSync(directory, { recursive: true })
        const process = await sandbox.startProcess('seq 1000000; echo end')
        await process.waitForExit()
        await recorder.close()
        expect(existsSync(directory)).toBe(false)
      }),
    ))
})
