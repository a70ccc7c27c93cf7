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
import * as proc from './proc.js'
import { until } from './until.js'

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
  let belongings = new Set<string>()
  try {
    await test({ sandbox, tag, directory, stateDir })
    if (!destroys) expect(await echo(sandbox)).toBe('ok\n')
    belongings = findBelongings(tag, before)
  } finally {
    await sandbox.destroy()
  }
  await expectNothingLeft(tag, belongings, before, patience)
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

interface Inventory {
  /**
   * The pids of all processes of the machine. A process with one of them is not the test's, and is not looked at: reading
   * all of /proc three times took longer than the rest of a short test. This overlooks a process only if the numbers wrap
   * around within a test, and reach one that has become free in it.
   */
  pids: ReadonlySet<number>
  files: string[]
  threads: string[]
  groups: string[]
}

function takeInventory(): Inventory {
  return {
    pids: new Set(proc.listPids()),
    files: proc.openFiles(),
    threads: proc.engineThreads(),
    groups: proc.ownGroups(),
  }
}

/** New processes that are below this process or have the tag. */
function findBelongings(tag: string, { pids }: Inventory): Set<string> {
  const fresh = proc.listProcesses(pids)
  const tagged = fresh.filter(({ pid }) => proc.carries(tag, pid))
  return new Set([...tagged, ...proc.descendants(process.pid, fresh)].map(proc.identity))
}

async function expectNothingLeft(
  tag: string,
  belongings: Set<string>,
  before: Inventory,
  patience?: number,
): Promise<void> {
  const left = () => {
    return [
      ...proc
        .listProcesses(before.pids)
        .filter((entry) => isLeft(entry, tag, belongings))
        .map((entry) => `process ${proc.show(entry)}`),
      ...surplus('file descriptor', proc.openFiles(), before.files),
      ...surplus('thread', proc.engineThreads(), before.threads),
      ...surplus('control group', proc.ownGroups(), before.groups),
    ]
  }
  await until(
    () => left().length === 0 || undefined,
    () => `left behind:\n${left().join('\n')}`,
    patience,
  )
}

/** A process of the sandbox, or a zombie that this process should have reaped. */
function isLeft(entry: proc.ProcessEntry, tag: string, belongings: Set<string>): boolean {
  if (entry.parent === process.pid && entry.state === 'Z') return true
  return belongings.has(proc.identity(entry)) || proc.carries(tag, entry.pid)
}

/** The current items, if there are more than before; names only suggest which are new. */
function surplus(kind: string, now: string[], before: string[]): string[] {
  if (now.length <= before.length) return []
  const fresh = now.filter((name) => !before.includes(name))
  return [`${now.length - before.length} more of kind ${kind}: ${fresh.join(', ')}`]
}

function listFiles(directory: string): string[] {
  return proc.entries(directory).length === 0
    ? []
    : readdirSync(directory, { recursive: true, encoding: 'utf8' })
}
