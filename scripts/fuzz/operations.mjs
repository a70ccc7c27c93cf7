/** Random operations on sessions, as plain data: a list can be repeated and shortened. */
import { ENDINGS, ENDLESS, FATAL, OPEN, SCRIPTS } from './endings.mjs'
import { fragment } from './fragments.mjs'
import { NAMES } from './state.mjs'
import { workspaceOperation } from './workspace.mjs'

/** How often each kind of operation is chosen. */
const WEIGHTS = {
  probe: 12,
  command: 14,
  end: 16,
  signal: 2,
  fatal: 5,
  timeout: 4,
  abort: 10,
  setEnv: 3,
  words: 2,
  refused: 2,
  job: 3,
  process: 7,
  leave: 3,
  output: 3,
  input: 3,
  close: 3,
  queue: 4,
  stream: 3,
  compare: 8,
  killShell: 5,
  killStandby: 3,
  killSupervisor: 3,
  stop: 3,
  recreate: 2,
  workspace: 4,
}

/**
 * Creates a list of operations for this many sessions. Without cgroups, a process with its own session (setsid) cannot be
 * found once the supervisor has been killed, so such processes are left out. `kinds` says which ones there are.
 */
export function makeOperations(random, count, sessions, { mode, kinds }) {
  const operations = anyOperations(random, count, sessions, kinds)
  return mode === 'subreaper' ? operations.filter(({ how }) => how !== 'setsid') : operations
}

/** The kinds of operations. */
export const KINDS = Object.keys(WEIGHTS)

function anyOperations(random, count, sessions, kinds) {
  const weights = Object.fromEntries(kinds.map((kind) => [kind, WEIGHTS[kind]]))
  return Array.from({ length: count }, () => {
    const kind = random.weighted(weights)
    return { session: random.below(sessions), kind, ...generators[kind](random) }
  })
}

const fragments = (random, least, most) => random.list(least, most, () => fragment(random))

const scope = (random) => {
  if (random.chance(0.75)) return undefined
  const env = Object.fromEntries(
    random.list(0, 2, () => [random.pick(NAMES), random.pick(['scoped', '', 'two\nlines', undefined])]),
  )
  return { env, cwd: random.chance(0.5) ? random.pick(['', '/d1', '/d1/d 2']) : undefined }
}

/** Microseconds between two steps, mostly short. */
const moment = (random, most = 4000) => Math.round(random.skewed(0, most))

const command = (random, least = 1) => ({
  before: fragments(random, least, 3),
  join: random.pick(['; ', '\n', '; ']),
  scope: scope(random),
})

/** Waits before a kill: none, or long enough for the session to become idle. */
const pause = (random) => (random.chance(0.5) ? random.below(20) : 400)

const generators = {
  probe: () => ({}),
  command: (random) => command(random),
  end: (random) => {
    const ending = random.pick(ENDINGS)
    // The text after an open quote would be a part of it.
    const after = OPEN.test(ending) ? [] : fragments(random, 0, 2)
    return { ...command(random), ending, after }
  },
  signal: (random) => ({ ...command(random), signal: random.pick(['TERM', 'HUP']) }),
  fatal: (random) => ({ ...command(random), fatal: random.pick(FATAL) }),
  timeout: (random) => ({
    ...command(random),
    endless: random.pick(ENDLESS),
    timeout: 10 + random.below(60),
    grace: random.pick([200, 1000]),
  }),
  abort: (random) => ({
    ...command(random),
    endless: random.chance(0.4) ? random.pick(ENDLESS) : undefined,
    after: moment(random),
    grace: random.pick([200, 1000]),
  }),
  setEnv: (random) => ({
    env: Object.fromEntries(
      random.list(1, 2, () => [random.pick(NAMES), random.pick(['set', 'a b', '', 'two\nlines', undefined])]),
    ),
  }),
  words: (random) => ({ words: random.list(0, 3, () => random.pick(['a b', '$x', '*', '', '-n', "it's"])) }),
  refused: (random) => ({ why: random.pick(['cwd', 'name', 'readonly', 'blank']) }),
  job: (random) => ({ code: random.below(200), sleep: random.pick(['0', '0.005', '0.03']) }),
  process: (random) => ({
    during: random.chance(0.5) ? command(random) : undefined,
    after: moment(random, 6000),
    terminal: random.chance(0.15),
    end: random.pick(['wait', 'wait', 'kill']),
  }),
  leave: (random) => ({
    how: random.pick(['process', 'background', 'setsid', 'nohup', 'service']),
  }),
  output: (random) => ({
    bytes: random.pick([0, 1, 65_535, 65_537, 200_000, 3_000_000]),
    keep: random.pick([1000, 1 << 20, undefined]),
  }),
  input: (random) => ({ bytes: random.pick([0, 1, 5000, 70_000, 500_000]), reads: random.chance(0.7) }),
  close: (random) => ({
    text: random.pick([
      'exec 0<&-',
      'exec 1>&-',
      'exec 2>&-',
      'exec 0<&- 1>&- 2>&-',
      'exec >/dev/null 2>&1',
      'exec 2>&1',
      'exec 3>/dev/null 9</dev/null',
      'for ((i = 0; i < 256; i++)); do \\builtin eval "exec $i>&-"; done',
      'exec 10</dev/null 11<&0 50>/dev/null 255>/dev/null',
    ]),
  }),
  queue: (random) => ({ count: 2 + random.below(5), aborted: random.below(8), name: random.pick(NAMES) }),
  stream: (random) => ({ lines: random.below(2000), how: random.pick(['break', 'kill', 'all']) }),
  compare: (random) => ({ script: random.pick(SCRIPTS) }),
  killShell: (random) => ({
    pause: pause(random),
    during: random.chance(0.5) ? command(random) : undefined,
    after: moment(random),
  }),
  killStandby: (random) => ({ pause: pause(random) }),
  killSupervisor: (random) => ({
    pause: pause(random),
    during: random.chance(0.5) ? command(random) : undefined,
    after: moment(random),
  }),
  stop: (random) => ({
    pause: pause(random),
    target: random.pick(['shell', 'standby', 'supervisor']),
    during: random.chance(0.4) ? random.pick(ENDLESS) : undefined,
  }),
  recreate: (random) => ({
    during: random.chance(0.5) ? random.pick(ENDLESS) : undefined,
    after: moment(random),
    awaited: random.chance(0.5),
  }),
  workspace: workspaceOperation,
}
