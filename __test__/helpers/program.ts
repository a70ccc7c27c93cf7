/** `nacre serve --stdio` as a program that `connectProgram` starts, directly or through another program. */
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { type ConnectProgramOptions, connectProgram, type ProgramClient } from 'nacre/engine'
import { expectGone } from './host.js'
import * as proc from './proc.js'
import { until } from './until.js'

const main = path.join(path.dirname(path.dirname(__dirname)), 'dist', 'cli', 'main.js')

/** The words that start the server, on the runtime of this process. */
export const server = [process.execPath, main, 'serve', '--stdio']

export interface ProgramPlace {
  sandbox: ProgramClient
  /** Set in the environment of the program and of everything below it. */
  tag: string
  directory: string
}

let programs = 0

/** A directory and a tag for programs of a test. Afterwards nothing with the tag may be left. */
export async function withTag(test: (tag: string, directory: string) => Promise<void>): Promise<void> {
  const tag = `nacre-program-${process.pid}-${++programs}`
  const directory = realpathSync(mkdtempSync(path.join(os.tmpdir(), `${tag}-`)))
  try {
    await test(tag, directory)
    await expectGone(tag)
  } finally {
    for (const { pid } of proc.tagged(tag)) proc.kill(pid)
    rmSync(directory, { recursive: true })
  }
}

/** Runs a test with a sandbox behind a program. `through` are the words before those of the server. */
export function withProgram(
  test: (place: ProgramPlace) => Promise<void>,
  through: string[] = [],
  options: ConnectProgramOptions = {},
): Promise<void> {
  return withTag(async (tag, directory) => {
    const argv = [...through, ...server, '--cwd', directory]
    const sandbox = await connectProgram(argv, { ...options, env: { NACRE_TEST_TAG: tag, ...options.env } })
    try {
      await test({ sandbox, tag, directory })
    } finally {
      await sandbox.close()
    }
  })
}

/** The server among the programs with a tag. */
export function serverOf(tag: string): Promise<number> {
  return until(
    () => proc.tagged(tag).find(({ pid }) => proc.commandLine(pid).startsWith(server.join(' ')))?.pid,
    () => `no server: ${proc.tagged(tag).map(proc.show).join('\n')}`,
  )
}
