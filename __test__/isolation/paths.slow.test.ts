/**
 * The rules for files against a model, with random trees full of links, random rules and random paths, in each tier: what
 * a session may open, and that nothing it does changes or shows what the rules close.
 */
import { chmodSync, lstatSync, mkdtempSync, readFileSync, readlinkSync, realpathSync, rmSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Random, withRandom } from '../helpers/random.js'
import { canRead, canWrite, isInSight, type PathRules, resolve } from './path-model.js'
import { anyPath, entriesOf, makeTree, makeWorld, pick, type World } from './path-worlds.js'
import { Programs, type Tier, tiers } from './tiers.js'

const ROUNDS = 60
const PROBES = 120
const MISCHIEF_ROUNDS = 12
const MISCHIEFS = 80

let programs: Programs
let base = ''
let trees = 0

beforeAll(() => {
  programs = new Programs('path-runner.mjs')
  base = realpathSync(mkdtempSync('/var/tmp/nacre-paths-'))
  chmodSync(base, 0o755)
})

afterAll(() => {
  programs.remove()
  rmSync(base, { recursive: true, force: true })
})

const quote = (text: string) => `'${text}'`

/** What the model says about an attempt. */
type Verdict = 'allowed' | 'refused' | 'either'

interface Probe {
  text: string
  verdict: Verdict
  /** Prints `yes` and what it read, or `no`. */
  command: string
}

/** Opens a path as one of: a file to read, a file to append to, a file to create. Changes nothing. */
function makeProbe(random: Random, { root, cwd, canonical }: World): Probe {
  const text = anyPath(random, root)
  const named = resolve(cwd, text)
  const verdict = (may: boolean): Verdict => {
    if (named === undefined || !may) return 'refused'
    return isInSight(canonical, cwd, named.entries) ? 'allowed' : 'either'
  }
  const word = quote(text)
  if (named?.kind === 'missing' && lstatOf(cwd, text) === undefined) {
    const command = `{ : >>${word} && rm -f -- ${word} && echo yes; } || echo no`
    return { text, verdict: verdict(canWrite(canonical, named.path)), command }
  }
  if (random.below(2) === 0) {
    const isFile = named?.kind === 'file'
    const command = `{ read -r line <${word} && echo "yes $line"; } || echo no`
    return { text, verdict: verdict(isFile && canRead(canonical, named.path)), command }
  }
  // To append to what is missing would create it.
  const isSafe = named === undefined || named.kind !== 'missing'
  if (!isSafe) return makeProbe(random, { root, cwd, rules: canonical, canonical })
  const command = `{ [[ -e ${word} ]] && : >>${word} && echo yes; } || echo no`
  return { text, verdict: verdict(named?.kind === 'file' && canWrite(canonical, named.path)), command }
}

const lstatOf = (cwd: string, text: string) => {
  try {
    return lstatSync(text.startsWith('/') ? text : `${cwd}/${text}`, { throwIfNoEntry: false })
  } catch {
    return undefined
  }
}

/**
 * A command that makes, moves, links, changes or removes something, if it can. Paths can lead out of the tree, so none is
 * recursive.
 */
function makeMischief(random: Random, { root }: World, hasMounts: boolean): string {
  const from = quote(anyPath(random, root))
  const to = quote(anyPath(random, root))
  const forms = [
    `mv -fT -- ${from} ${to}`,
    `mv -f -- ${from} ${to}`,
    `ln -sfT -- ${from} ${to}`,
    `ln -fT -- ${from} ${to}`,
    `ln -fTP -- ${from} ${to}`,
    `cp -fT -- ${from} ${to}`,
    `rm -f -- ${from}`,
    `rmdir -- ${from}`,
    `mkdir -p -- ${from}`,
    `truncate -s 0 -- ${from}`,
    `echo written >>${from}`,
    `cat -- ${from}`,
    `cd -- ${from}`,
    // Landlock has no right for modes.
    ...(hasMounts ? [`chmod a+rwx -- ${from}`] : []),
  ]
  return `timeout 5 bash -c ${JSON.stringify(pick(random, forms)).replaceAll('$', '\\$')}`
}

/** Everything that the rules close: the entries and contents that a session must leave as they are. */
function closedParts({ root, canonical }: World, hasMounts: boolean): string[] {
  const parts: string[] = []
  for (const at of entriesOf(root)) {
    const stat = lstatSync(at)
    const isOpen = canWrite(canonical, at)
    if (isOpen && canWrite(canonical, path.dirname(at))) continue
    const content = stat.isFile() ? readFileSync(at, 'utf8') : ''
    const target = stat.isSymbolicLink() ? readlinkSync(at) : ''
    // See makeMischief.
    const mode = hasMounts ? stat.mode : 0
    parts.push(JSON.stringify([at, stat.ino, target, ...(isOpen ? [] : [content, mode])]))
  }
  return parts.sort()
}

/** What a session printed although it may not read it. */
const leaked = (output: string, { read, write, hide, protect }: PathRules) =>
  output
    .split('\n')
    .map((line) => /content of (\S+)/.exec(line)?.[1])
    .filter((file) => file !== undefined && !canRead({ read, write, hide, protect }, file))

function makeRounds(random: Random, tier: Tier, count: number): World[] {
  return Array.from({ length: count }, () => {
    const root = path.join(base, String(trees++))
    makeTree(random, root, tier.uid)
    return makeWorld(random, root, tier.hasMounts)
  })
}

const inSandboxes = (tier: Tier, worlds: World[], commands: string[]) =>
  programs.run<string[]>(tier, 'path-runner.mjs', {
    rounds: worlds.map(({ cwd, rules }, round) => ({
      cwd,
      isolation: { filesystem: rules },
      command: commands[round],
    })),
  })

describe.each(tiers)('with $name', (tier) => {
  it(
    'a session may open what the rules say, whatever the path looks like',
    () =>
      withRandom(async (random) => {
        const worlds = makeRounds(random, tier, ROUNDS)
        const probes = worlds.map((world) => Array.from({ length: PROBES }, () => makeProbe(random, world)))
        const outputs = await inSandboxes(
          tier,
          worlds,
          probes.map((list) => list.map(({ command }) => `${command} 2>/dev/null`).join('\n')),
        )
        const wrong: object[] = []
        const seen = { allowed: 0, refused: 0, either: 0 }
        outputs.forEach((output, round) => {
          const lines = output.trimEnd().split('\n')
          expect(lines).toHaveLength(PROBES)
          probes[round]?.forEach(({ text, verdict, command }, index) => {
            seen[verdict]++
            const is = lines[index]?.startsWith('yes') ? 'allowed' : 'refused'
            if (verdict !== 'either' && verdict !== is)
              wrong.push({ text, verdict, is, command, ...worlds[round] })
          })
        })
        expect(wrong.slice(0, 3)).toEqual([])
        // The inputs are of use: there was much to allow and much to refuse.
        expect(seen.allowed).toBeGreaterThan(ROUNDS * 2)
        expect(seen.refused).toBeGreaterThan(ROUNDS * 2)
      }),
    120_000,
  )

  it(
    'nothing that a session does changes or shows what the rules close',
    () =>
      withRandom(async (random) => {
        const worlds = makeRounds(random, tier, MISCHIEF_ROUNDS)
        const before = worlds.map((world) => closedParts(world, tier.hasMounts))
        const commands = worlds.map((world) =>
          Array.from(
            { length: MISCHIEFS },
            () => `${makeMischief(random, world, tier.hasMounts)} 2>/dev/null`,
          ).join('\n'),
        )
        const outputs = await inSandboxes(tier, worlds, commands)
        worlds.forEach((world, round) => {
          const after = closedParts(world, tier.hasMounts)
          const context = JSON.stringify({ ...world, command: commands[round] })
          expect(after, context).toEqual(before[round])
          expect(leaked(outputs[round] ?? '', world.canonical), context).toEqual([])
        })
      }),
    240_000,
  )
})
