/**
 * The verbs of companion packages: `nacre serve` of `@nacre/server`, `nacre worker` and `nacre queue` of `@nacre/queue`,
 * `nacre mcp` of `@nacre/mcp`, and `nacre record` and `nacre replay` of `@nacre/console`. `nacre serve --e2b` and `--daytona` are the program of `@nacre/compat`. A program that has nacre
 * without the package gets a sentence that says how to install it.
 */
import type { Command } from 'commander'
import { isNotInstalled, notInstalled } from '../base/companion.js'
import type { Finish } from './verb.js'

interface Companion {
  addVerbs(program: Command, finish: Finish): void
}

const COMPANIONS = [
  { name: '@nacre/server', verbs: ['serve'] },
  { name: '@nacre/queue', verbs: ['worker', 'queue'] },
  { name: '@nacre/mcp', verbs: ['mcp'] },
  { name: '@nacre/console', verbs: ['record', 'replay'] },
]

const COMPAT = '@nacre/compat'

const COMPAT_FLAG = /^--(?:e2b|daytona)(?==|$)/

/** Runs `nacre serve --e2b` or `--daytona`, a program with other options. It ends this process. False for all other words. */
export async function runCompat([verb, ...words]: string[]): Promise<boolean> {
  const end = words.indexOf('--')
  const flags = end < 0 ? words : words.slice(0, end)
  const flag = flags.flatMap((word) => COMPAT_FLAG.exec(word) ?? [])[0]
  if (verb !== 'serve' || flag === undefined) return false
  const companion = await load<{ runProgram(name: string, words: string[]): Promise<never> }>(COMPAT)
  if (companion === undefined) throw notInstalled(`nacre serve ${flag}`, COMPAT)
  return companion.runProgram('nacre serve', words)
}

/** Adds all of them. Never looks in the working directory, which may be that of the commands. */
export async function addCompanionVerbs(program: Command, finish: Finish): Promise<void> {
  for (const { name, verbs } of COMPANIONS) {
    const companion = await load<Companion>(name)
    if (companion !== undefined) companion.addVerbs(program, finish)
    else for (const verb of verbs) addMissing(program, verb, name)
  }
}

async function load<T>(name: string): Promise<T | undefined> {
  const module = `${name}/cli`
  try {
    return (await import(module)) as T
  } catch (error) {
    if (isNotInstalled(name, error)) return undefined
    throw error
  }
}

function addMissing(program: Command, verb: string, name: string): void {
  program
    .command(verb)
    .description(`needs ${name}: npm install ${name}`)
    .argument('[words...]')
    .helpOption(false)
    .allowUnknownOption()
    .action(() => {
      throw notInstalled(`nacre ${verb}`, name)
    })
}
