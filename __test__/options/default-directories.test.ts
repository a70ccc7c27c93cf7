/** Where jobs lie when no option says so. */
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { planSandbox } from '../../lib/backends/native/plan/sandbox.js'

const isRoot = process.getuid?.() === 0
const ownName = `sandbox-jobs-${process.getuid?.()}`

describe('the default jobsRoot', () => {
  const former = process.env.TMPDIR
  let base = ''
  const root = () => path.relative(base, planSandbox({}).config.jobsRoot)
  const make = (name: string, mode = 0o700) => {
    mkdirSync(path.join(base, name))
    chmodSync(path.join(base, name), mode)
  }

  beforeEach(() => {
    base = mkdtempSync(path.join(os.tmpdir(), 'nacre-default-'))
    process.env.TMPDIR = base
  })
  afterEach(() => {
    if (former === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = former
    rmSync(base, { recursive: true })
  })

  it('is sandbox-jobs when it is missing or the caller owns it', () => {
    expect(root()).toBe('sandbox-jobs')
    make('sandbox-jobs', 0o755)
    expect(root()).toBe('sandbox-jobs')
    make(ownName)
    expect(root()).toBe('sandbox-jobs')
  })

  it('is per user when other users can write to sandbox-jobs', () => {
    make('sandbox-jobs', 0o1777)
    expect(root()).toBe(ownName)
  })

  it('is per user when sandbox-jobs is a symlink', () => {
    make('elsewhere')
    symlinkSync(path.join(base, 'elsewhere'), path.join(base, 'sandbox-jobs'))
    expect(root()).toBe(ownName)
  })

  it('stays per user when the sandbox-jobs of another user is removed', () => {
    make(ownName)
    expect(root()).toBe(ownName)
  })

  if (isRoot) {
    it('is per user when sandbox-jobs belongs to another user', () => {
      make('sandbox-jobs')
      chownSync(path.join(base, 'sandbox-jobs'), 65534, 65534)
      expect(root()).toBe(ownName)
    })
  }
})
