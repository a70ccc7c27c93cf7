/** A virtual machine that is booted ahead. Run by `npm run test:vm`. */
import { spawn } from 'node:child_process'
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { EngineOptions } from 'nacre/engine'
import { openSandbox } from 'nacre/engine'
import { afterEach, describe, expect, it } from 'vitest'
import { temporary } from '../helpers/temporary.js'
import { until } from '../helpers/until.js'
import { commandOf, descendants, isAlive, type Known, look } from './processes.js'

const root = path.dirname(path.dirname(__dirname))
/** A round boots a machine, which takes seconds. NACRE_TEST_ROUNDS=20 is for changes of what ends. */
const rounds = Number(process.env.NACRE_TEST_ROUNDS ?? 1)
const BOOT_MS = 240_000
/** Milliseconds after which nothing may be left. */
const GONE_MS = 1500
const { NACRE_TEST_OWN_KERNEL: kernel } = process.env

/** The machines of a program, by the processes that start them. */
const machines = (program = process.pid) =>
  descendants(program).filter((one) => look(one.pid)?.parent === program && isMachine(one))

const isMachine = (one: Known) => {
  try {
    return commandOf(one).trim().endsWith('nacre-supervisor --vm')
  } catch {
    // It has ended.
    return false
  }
}

const open = (cwd: string, options: EngineOptions = {}) =>
  openSandbox({ engine: 'vm', emulate: true, memory: '768m', ...(kernel && { kernel }), cwd, ...options })

/** The one that waits beside those that are open. */
const waiting = (...pids: number[]) =>
  until(
    () => machines().find(({ pid }) => !pids.includes(pid)),
    () => `there is none beside ${pids}`,
  )

const gone = (known: Known[], milliseconds = 20_000) =>
  until(
    () => known.every((one) => !isAlive(one)) || undefined,
    () => `these are left: ${JSON.stringify(known.filter(isAlive))}`,
    milliseconds,
  )

/** All calls of a program share one. */
afterEach(async () => {
  const left = machines()
  for (const { pid } of left) process.kill(pid, 'SIGKILL')
  await gone(left)
})

describe('a machine that is booted ahead', () => {
  it(
    'is taken by the next call with the same options, with its files, variables, rules and network',
    async () => {
      const cwd = temporary('nacre-vm-spare-')
      writeFileSync(path.join(cwd, 'one'), '1')
      const options: EngineOptions = {
        spare: true,
        env: { COLOR: 'blue' },
        isolation: { filesystem: { protect: ['one'] } },
        network: { allow: ['example.com:443'] },
      }
      const first = await open(cwd, options)
      const { pid } = await waiting(first.vm?.pid as number)
      writeFileSync(path.join(cwd, 'two'), '2')
      await first.destroy()
      await using second = await open(cwd, { ...options, spare: false })
      expect(second.vm?.pid).toBe(pid)
      const { stdout } = await second.exec(
        'cat one two; echo " $COLOR"; echo x 2>/dev/null >one || echo kept; curl -sx $HTTP_PROXY http://other.example',
      )
      expect(stdout).toMatch(/^12 blue\nkept\n.*the option network does not allow other\.example/)
      expect(machines().map((one) => one.pid)).toEqual([pid])
    },
    2 * BOOT_MS,
  )

  it(
    'is not taken with other options, or when the project is another directory at the same path',
    async () => {
      const cwd = temporary('nacre-vm-spare-')
      await using first = await open(cwd, { spare: true })
      const spare = await waiting(first.vm?.pid as number)
      renameSync(cwd, `${cwd}-old`)
      mkdirSync(cwd)
      writeFileSync(path.join(cwd, 'new'), 'new')
      await using second = await open(cwd)
      expect(second.vm?.pid).not.toBe(spare.pid)
      expect((await second.exec('cat new')).stdout).toBe('new')
      // One that boots another ahead takes its place.
      await using third = await open(cwd, { spare: true, env: { A: '1' } })
      await gone([spare])
      await waiting(...[first, second, third].map((one) => one.vm?.pid as number))
      rmSync(`${cwd}-old`, { recursive: true })
    },
    4 * BOOT_MS,
  )

  it(
    'is replaced when it was killed, and can be taken while it boots, but not by a call that is aborted',
    async () => {
      const cwd = temporary('nacre-vm-spare-')
      await using first = await open(cwd, { spare: true })
      const one = first.vm?.pid as number
      process.kill((await waiting(one)).pid, 'SIGKILL')
      await using second = await open(cwd, { spare: true })
      const two = second.vm?.pid as number
      const booting = await waiting(one, two)
      await using third = await open(cwd, { spare: true })
      expect(third.vm?.pid).toBe(booting.pid)
      const { pid } = await waiting(one, two, booting.pid)
      const controller = new AbortController()
      const aborted = open(cwd, { signal: controller.signal })
      controller.abort()
      await expect(aborted).rejects.toMatchObject({ name: 'AbortError' })
      await using fourth = await open(cwd)
      expect(fourth.vm?.pid).toBe(pid)
      expect((await fourth.exec('echo works')).stdout).toBe('works\n')
    },
    4 * BOOT_MS,
  )
})

describe('a program that boots one ahead', () => {
  /** Its processes, with those of the second machine, which boots. */
  const second = (program: number) =>
    until(
      () => {
        const found = descendants(program)
        return found.filter(({ name }) => name.startsWith('qemu')).length === 2 ? found : undefined
      },
      () => 'there is no second machine',
    )

  const run = (rest: string) => {
    const script = `
      import { openSandbox } from ${JSON.stringify(path.join(root, 'dist/engine/index.js'))}
      const { NACRE_TEST_OWN_KERNEL: kernel } = process.env
      const sandbox = await openSandbox({ engine: 'vm', emulate: true, memory: '768m', kernel, spare: true, network: { allow: [] }, cwd: ${JSON.stringify(temporary('nacre-vm-spare-'))} })
      console.log('open')
      ${rest}`
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let printed = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      printed += text
    })
    const isOpen = () =>
      until(
        () => printed.includes('open') || undefined,
        () => `it is not open: ${printed}`,
        BOOT_MS,
      )
    return { child, isOpen }
  }

  it(
    'ends by itself, also while that boots, and leaves nothing',
    async () => {
      const { child, isOpen } = run(`
        const { setTimeout: sleep } = await import('node:timers/promises')
        await sleep(500)
        await sandbox.destroy()`)
      const code = new Promise((resolve) => child.once('exit', resolve))
      await isOpen()
      const known = await second(child.pid as number)
      expect(await code).toBe(0)
      await gone(known, GONE_MS)
    },
    BOOT_MS,
  )

  it(
    'leaves nothing after SIGKILL',
    async () => {
      for (let round = 0; round < rounds; round++) {
        const { child, isOpen } = run('setInterval(() => {}, 1000)')
        await isOpen()
        const known = await second(child.pid as number)
        child.kill('SIGKILL')
        await gone(known, GONE_MS)
      }
    },
    rounds * BOOT_MS,
  )
})
