/**
 * The verbs of companion packages: `nacre serve` of `@nacre/server`, `nacre worker` and `nacre queue` of `@nacre/queue`, and
 * `nacre mcp` of `@nacre/mcp`. A program that has nacre without the package gets a sentence that says how to install it.
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
]

/** Adds all of them. Never looks in the working directory, which may be that of the commands. */
export async function addCompanionVerbs(program: Command, finish: Finish): Promise<void> {
  for (const { name, verbs } of COMPANIONS) {
    const companion = await load(name)
    if (companion !== undefined) companion.addVerbs(program, finish)
    else for (const verb of verbs) addMissing(program, verb, name)
  }
}

async function load(name: string): Promise<Companion | undefined> {
  const module = `${name}/cli`
  try {
    return (await import(module)) as Companion
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
