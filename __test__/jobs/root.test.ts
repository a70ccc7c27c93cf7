/** A jobsRoot or stateDir that other users can change is refused, for reads as for writes, and stays as it is. */
import {
  chmodSync,
  chownSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmdirSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { withJobs } from '../helpers/jobs.js'
import { rejectionOf } from '../helpers/thrown.js'

const isRoot = process.getuid?.() === 0

/** Makes the directory at `real` bad, and gives the path to name. */
const BAD: Record<string, { make: (real: string, link: string) => string; reason: RegExp }> = {
  'is a symlink': {
    make: (real, link) => {
      symlinkSync(real, link)
      return link
    },
    reason: /is a symlink/,
  },
  'is a symlink and has a slash at its end': {
    make: (real, link) => {
      symlinkSync(real, link)
      return `${link}/`
    },
    reason: /is a symlink/,
  },
  'is writable by others': {
    make: (real) => {
      chmodSync(real, 0o777)
      return real
    },
    reason: /other users can write to it \(mode 0777\)/,
  },
  'is writable by its group': {
    make: (real) => {
      chmodSync(real, 0o770)
      return real
    },
    reason: /other users can write to it \(mode 0770\)/,
  },
  ...(isRoot && {
    'belongs to another user': {
      make: (real: string) => {
        chownSync(real, 65534, 65534)
        return real
      },
      reason: /belongs to another user \(uid 65534\)/,
    },
  }),
}

describe.each(Object.entries(BAD))('a directory that %s', (_, { make, reason }) => {
  it('is refused as jobsRoot by every call', () =>
    withJobs(async ({ jobs, root, base }) => {
      const { jobId } = await jobs.start({ command: 'echo secret' })
      await jobs.wait(jobId)
      const real = path.join(base, 'real')
      renameSync(root, real)
      mkdirSync(path.join(real, '~left'), { mode: 0o700 })
      const before = statSync(real)
      const other = new Sandbox({
        jobsRoot: make(real, path.join(base, 'link')),
        stateDir: path.join(base, 's'),
      })
      const { mode } = statSync(real)
      const calls = {
        start: () => other.jobs.start({ command: 'true' }),
        list: () => other.jobs.list(),
        status: () => other.jobs.status(jobId),
        read: () => other.jobs.read(jobId),
        attach: () => other.jobs.attach(jobId),
        wait: () => other.jobs.wait(jobId),
        follow: () => other.jobs.follow(jobId).next(),
        cancel: () => other.jobs.cancel(jobId),
        remove: () => other.jobs.remove(jobId),
      }
      for (const [name, call] of Object.entries(calls)) {
        const error = await rejectionOf(call())
        expect(error, name).toMatchObject({ code: 'STATE_DIR_UNAVAILABLE' })
        expect(error.message, name).toMatch(/^jobsRoot '/)
        expect(error.message, name).toMatch(reason)
      }
      await other.destroy()
      expect(statSync(real).mode).toBe(mode)
      expect(readdirSync(real).sort()).toEqual([jobId, '~left'].sort())
      chownSync(real, before.uid, before.gid)
      chmodSync(real, before.mode)
      renameSync(real, root)
      rmdirSync(path.join(root, '~left'))
    }))

  it('is refused as stateDir by startProcess, and keeps its mode', () =>
    withSandbox(async ({ directory }) => {
      const real = path.join(directory, 'real')
      mkdirSync(real, { mode: 0o755 })
      const stateDir = make(real, path.join(directory, 'link'))
      const { mode } = lstatSync(real)
      const sandbox = new Sandbox({ stateDir, cwd: directory })
      const error = await rejectionOf(sandbox.startProcess('true'))
      expect(error).toMatchObject({ code: 'STATE_DIR_UNAVAILABLE' })
      expect(error.message).toMatch(/^stateDir '/)
      expect(error.message).toMatch(reason)
      await sandbox.destroy()
      expect(lstatSync(real).mode).toBe(mode)
      expect(readdirSync(real)).toEqual([])
    }))
})

if (isRoot) {
  it('the job of another user in a good root is neither listed nor read', () =>
    withJobs(async ({ jobs, root }) => {
      const { jobId } = await jobs.start({ command: 'echo secret' })
      await jobs.wait(jobId)
      const directory = path.join(root, jobId)
      chownSync(directory, 65534, 65534)
      expect(await jobs.list()).toEqual([])
      for (const call of [() => jobs.read(jobId), () => jobs.cancel(jobId), () => jobs.remove(jobId)]) {
        const error = await rejectionOf(call())
        expect(error).toMatchObject({ code: 'STATE_DIR_UNAVAILABLE' })
        expect(error.message).toMatch(/jobsRoot.*belongs to another user/)
      }
      chownSync(directory, 0, 0)
      await jobs.remove(jobId)
    }))

  it('a stateDir that is a symlink is not followed for another user, and its target keeps its mode', () =>
    withSandbox(async ({ directory }) => {
      const real = path.join(directory, 'real')
      mkdirSync(real, { mode: 0o700 })
      symlinkSync(real, path.join(directory, 'link'))
      const sandbox = new Sandbox({
        stateDir: path.join(directory, 'link'),
        cwd: '/',
        user: { uid: 65534, gid: 65534 },
      })
      await sandbox.exec('true').catch(() => {})
      await sandbox.destroy()
      expect(lstatSync(real).mode & 0o777).toBe(0o700)
      expect(readdirSync(real)).toEqual([])
    }))
}
