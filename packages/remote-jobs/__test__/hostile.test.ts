/** What lies in the directory of a remote job blocks no call and leads nowhere else. */
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { inEveryShell, isMain, itRemotely, withRemoteJobs } from './places.js'

const STRANGE: Record<string, (file: string, outside: string) => void> = {
  'a FIFO': (file) => execFileSync('mkfifo', [file]),
  'a symlink': (file, outside) => symlinkSync(outside, file),
  'a sparse file of 3 GB': (file) => {
    writeFileSync(file, '')
    truncateSync(file, 3 * 1024 ** 3)
  },
}

inEveryShell('hostile directories of remote jobs', (shell) => {
  for (const [kind, put] of Object.entries(STRANGE)) {
    itRemotely(shell, `${kind} in the place of a file blocks no call`, async ({ jobs, root }) => {
      const outside = path.join(path.dirname(root), 'outside')
      writeFileSync(outside, 'secret\n')
      const { jobId } = await jobs.start({ command: 'echo own' })
      await jobs.wait(jobId)
      for (const name of ['meta.json', 'exit', 'end.json', 'output.log']) {
        const file = path.join(root, jobId, name)
        renameSync(file, `${outside}.kept`)
        put(file, outside)
        const calls = [
          () => jobs.list(),
          () => jobs.status(jobId),
          () => jobs.attach(jobId),
          () => jobs.read(jobId, 0, { maxBytes: 1024 }),
        ]
        for (const call of calls) {
          const outcome = await call().catch((error: { code: string }) => error.code)
          expect(JSON.stringify(outcome ?? null)).not.toContain('secret')
        }
        rmSync(file)
        renameSync(`${outside}.kept`, file)
      }
      expect((await jobs.read(jobId)).raw).toBe('own\n')
      expect(readFileSync(outside, 'utf8')).toBe('secret\n')
    })
  }

  if (!isMain(shell)) return

  it('list removes old leftovers of its own, and nothing else that begins with @', () =>
    withRemoteJobs(shell, async ({ jobs, root }) => {
      await jobs.list()
      const mark = 'a'.repeat(32)
      const own = [`@new-${mark}`, `@gone-${mark}`]
      const foreign = ['@notes', '@new-idea', '@gone-fishing']
      const longAgo = new Date(Date.now() - 3 * 86_400_000)
      for (const name of [...own, ...foreign]) {
        mkdirSync(path.join(root, name))
        writeFileSync(path.join(root, name, 'file'), 'mine')
        utimesSync(path.join(root, name), longAgo, longAgo)
      }
      await jobs.list()
      const left = readdirSync(root).filter((name) => !name.startsWith('@supervisor-'))
      expect(left.sort()).toEqual([...foreign].sort())
      for (const name of foreign) rmSync(path.join(root, name), { recursive: true })
    }))

  it('a root that is a symlink is refused', () =>
    withRemoteJobs(shell, async ({ root, again }) => {
      const base = path.dirname(root)
      mkdirSync(path.join(base, 'real'), { mode: 0o700 })
      symlinkSync(path.join(base, 'real'), path.join(base, 'link'))
      for (const jobsRoot of [path.join(base, 'link'), `${path.join(base, 'link')}/`]) {
        const jobs = again({ jobsRoot })
        for (const call of [() => jobs.start({ command: 'true' }), () => jobs.list()])
          expect(await rejectionOf(call())).toMatchObject({ code: 'STATE_DIR_UNAVAILABLE' })
      }
      expect(readdirSync(path.join(base, 'real'))).toEqual([])
      expect(existsSync(path.join(base, 'real'))).toBe(true)
    }))
})
