/**
 * Tables of commands, with the results of an ordinary bash.
 *
 * The commands of a case run one after another in a fresh session and directory. Unspecified results of a command are the
 * simplest: no output, code 0.
 */
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import type { Command, ExecResult, Session, SessionExecOptions, SessionOptions } from 'nacre'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { withSandbox } from './invariants.js'
import { chosenModes, enter, type Mode } from './modes.js'

export interface Step {
  run: Command
  options?: SessionExecOptions<'utf8' | 'buffer'>
  /** Standard output. Here and in the next two, `<dir>` stands for the directory of the case. */
  out?: string | RegExp | Uint8Array
  err?: string | RegExp | Uint8Array
  /** The session's directory afterwards. */
  cwd?: string
  /** null if bash itself would not continue, and the engine must replace the shell. */
  code?: number | null
  /** Whether the shell had to be replaced. */
  restarted?: boolean
  /** The code of the expected rejection. */
  rejects?: string
}

/** Cases by their names. Some have a session with options of its own. */
export type Cases = Record<string, Step[] | { session: SessionOptions; steps: Step[] }>

/** A separate directory for the case, and a session that starts in it. */
interface Stage {
  session: Session
  directory: string
}

/** The complete environment of the sessions. */
export const environment = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  HOME: '/',
  LANG: 'C.UTF-8',
}

/** A bash other than the one on PATH, set by scripts/bash-matrix.mjs. */
const shell = process.env.NACRE_TEST_BASH === undefined ? {} : { shell: process.env.NACRE_TEST_BASH }

/** Declares the tests of a table, in the selected engine modes or in the given ones. */
export function conforms(subject: string, cases: Cases, among?: Mode[]): void {
  inChosenModes(
    subject,
    (stage) => {
      for (const [name, one] of Object.entries(cases)) {
        const { session, steps } = Array.isArray(one) ? { session: undefined, steps: one } : one
        it(name, () => stage(session, (where) => check(where, steps)))
      }
    },
    among,
  )
}

/**
 * Declares tests that fail if a known difference from bash has disappeared, or appears elsewhere. Each case has the reason why
 * it cannot be fixed.
 */
export function differs(cases: Record<string, { reason: string; steps: Step[] }>): void {
  inChosenModes('known infidelities', (stage) => {
    for (const [name, { reason, steps }] of Object.entries(cases)) {
      it(`${name}: ${reason}`, () =>
        stage(undefined, async (where) => {
          const found = await check(where, steps).catch((error: Error) => error)
          if (found === undefined) throw new Error('this is as in bash now: move it to its table')
        }))
    }
  })
}

/** Declares tests that each get a fresh session and directory in one sandbox, in the selected engine modes. */
export function inChosenModes(
  subject: string,
  declare: (stage: ReturnType<typeof theatre>, mode: Mode) => void,
  among: Mode[] = chosenModes,
): void {
  for (const mode of among) {
    describe(`${subject}, ${mode.name}`, () => declare(theatre(mode), mode))
  }
}

/** One sandbox for all tests of a block. The invariants are checked when the block ends. */
function theatre(mode: Mode) {
  let close = () => {}
  let ended: Promise<void> | undefined
  let place: { create(options?: SessionOptions): Promise<Stage> } | undefined
  let count = 0
  beforeAll(
    () =>
      new Promise<void>((opened, failed) => {
        const leave = enter(mode)
        const expectations = { options: { extendEnv: false, env: environment, ...shell } }
        ended = withSandbox(async ({ sandbox, directory: root }) => {
          leave()
          place = {
            async create(options) {
              const directory = path.join(root, `case-${++count}`)
              mkdirSync(directory)
              return { directory, session: await sandbox.createSession({ cwd: directory, ...options }) }
            },
          }
          opened()
          await new Promise<void>((resolve) => {
            close = resolve
          })
        }, expectations)
        ended.catch(failed)
      }),
  )
  afterAll(async () => {
    close()
    await ended
  })
  return async (
    options: SessionOptions | undefined,
    test: (stage: Stage) => Promise<void>,
  ): Promise<void> => {
    const stage = await place?.create(options)
    if (stage === undefined) throw new Error('the sandbox was not opened')
    try {
      await test(stage)
    } finally {
      await stage.session[Symbol.asyncDispose]()
    }
  }
}

/** Runs the steps and compares each result with the expected one. */
async function check({ session, directory }: Stage, steps: Step[]): Promise<void> {
  for (const [index, step] of steps.entries()) {
    const found = await outcome(session, step).then((one) => differences(one, step, directory))
    const text = typeof step.run === 'string' ? step.run : JSON.stringify(step.run)
    if (found.length > 0) throw new Error([`step ${index + 1}: ${text}`, ...found].join('\n'))
  }
}

/** Turns a hanging command into a failure with a name. */
const limits = { timeout: 10_000, forceKillAfterDelay: 100 }

type Outcome = Record<'out' | 'err' | 'code' | 'restarted' | 'cwd' | 'rejects', unknown>

async function outcome(session: Session, { run, options }: Step): Promise<Outcome> {
  try {
    const result: ExecResult<'utf8' | 'buffer'> = await session.exec(run, { ...limits, ...options })
    const { stdout: out, stderr: err, exitCode: code, sessionRestarted: restarted, cwd } = result
    return { out, err, code, restarted, cwd, rejects: undefined }
  } catch (error) {
    const rejects = (error as { code?: string }).code ?? String(error)
    return { out: '', err: '', code: 0, restarted: false, cwd: undefined, rejects }
  }
}

/** The differences from the expected result, one line each. */
function differences(found: Outcome, step: Step, directory: string): string[] {
  const { out = '', err = '', code = 0, restarted = false, cwd, rejects } = step
  const expected: Outcome = { out, err, code, restarted, cwd, rejects }
  if (cwd === undefined) delete (expected as Partial<Outcome>).cwd
  return Object.entries(expected).flatMap(([key, wanted]) => {
    const actual = comparable(found[key as keyof Outcome], directory)
    const same =
      wanted instanceof RegExp
        ? wanted.test(String(actual))
        : Object.is(actual, comparable(wanted, directory))
    return same ? [] : [`  ${key}: ${show(actual)}`, `  expected: ${show(comparable(wanted, directory))}`]
  })
}

/** Bytes and text as strings, with the directory's name replaced. */
function comparable(value: unknown, directory: string): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('latin1')
  if (typeof value !== 'string') return value
  const text = value.replaceAll(directory, '<dir>')
  // Versions of bash align their tables differently.
  return process.env.NACRE_TEST_BASH === undefined ? text : text.replaceAll(/ +/g, ' ')
}

function show(value: unknown): string {
  return value instanceof RegExp ? String(value) : String(JSON.stringify(value)).slice(0, 2000)
}
