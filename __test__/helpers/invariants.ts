/**
 * A sandbox for a test, and the four invariants that are checked after every test:
 *
 * I1: no process of the sandbox is left. I2: this process has no zombies. I3: file descriptors, threads, control groups and
 * files are as before. I4: the sandbox still ran `echo ok`.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Sandbox, type SandboxOptions } from 'nacre'
import { expect } from 'vitest'
import { belongings, entries, leftovers, takeInventory } from '../../scripts/fuzz/world.mjs'

export interface Workplace {
  sandbox: Sandbox
  /** Set in the environment of everything the sandbox starts. */
  tag: string
  /** The sandbox's directory, initially empty, removed afterwards. */
  directory: string
  /** The directory for the sandbox's own files. */
  stateDir: string
}

export interface Expectations {
  options?: SandboxOptions
  /** Skips I4, for tests that destroy the sandbox themselves. */
  destroys?: boolean
  /** How long to wait until nothing is left, in ms. */
  patience?: number
}

let sandboxes = 0

/** Runs a test with its own sandbox and checks the invariants afterwards. */
export async function withSandbox(
  test: (workplace: Workplace) => Promise<void>,
  expectations: Expectations = {},
): Promise<void> {
  await warmUp()
  sandboxes++
  const tag = `nacre-test-${process.pid}-${sandboxes}`
  const base = mkdtempSync(path.join(os.tmpdir(), `${tag}-`))
  try {
    await check(test, expectations, tag, base)
  } finally {
    rmSync(base, { recursive: true, force: true })
  }
}

async function check(
  test: (workplace: Workplace) => Promise<void>,
  { options, destroys = false, patience }: Expectations,
  tag: string,
  base: string,
): Promise<void> {
  const directory = path.join(base, 'work')
  const stateDir = path.join(base, 'state')
  // Other users may have to traverse it.
  chmodSync(base, 0o711)
  mkdirSync(directory)
  const before = takeInventory()
  const sandbox = new Sandbox({
    cwd: directory,
    stateDir,
    ...options,
    env: { NACRE_TEST_TAG: tag, ...options?.env },
  })
  let owned = new Set<string>()
  try {
    await test({ sandbox, tag, directory, stateDir })
    if (!destroys) expect(await echo(sandbox)).toBe('ok\n')
    owned = belongings(tag, before)
  } finally {
    await sandbox.destroy()
  }
  const left = await leftovers(tag, owned, before, patience)
  if (left.length > 0) throw new Error(`left behind:\n${left.join('\n')}`)
  expect(listFiles(stateDir)).toEqual([])
}

async function echo(sandbox: Sandbox): Promise<string> {
  const { stdout } = await sandbox.exec('echo ok', { timeout: 20_000 })
  return stdout
}

let warm: Promise<void> | undefined

/**
 * Loads the addon and starts the engine's thread, which then belong to the inventory. So do the event loop that Bun
 * creates when `spawnSync` is first used, and its copies of the descriptors of standard output and error.
 */
function warmUp(): Promise<void> {
  warm ??= (async () => {
    const stateDir = mkdtempSync(path.join(os.tmpdir(), 'nacre-test-warm-'))
    const sandbox = new Sandbox({ stateDir })
    await echo(sandbox)
    await sandbox.destroy()
    rmSync(stateDir, { recursive: true, force: true })
    spawnSync('true')
    process.stdout.write('')
    process.stderr.write('')
  })()
  return warm
}

function listFiles(directory: string): string[] {
  return entries(directory).length === 0 ? [] : readdirSync(directory, { recursive: true, encoding: 'utf8' })
}
