/** One round of `chaos.mjs`: the calls, and the model of their results. */
import { getEventListeners } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Sandbox } from 'nacre'
import { spin } from './kills.mjs'
import { createRandom } from './random.mjs'
import { inMode, readFiles } from './round.mjs'
import { belongings, leftovers, takeInventory } from './world.mjs'

export const MODES = {
  builtin: {},
  plain: { env: { NACRE_ENGINE: 'plain' } },
  isolated: { options: { isolation: 'workspace' } },
  nogroups: { env: { NACRE_CONTAINMENT: 'subreaper' } },
}

/** Every call settles within this time, since what runs longer is killed. Bounds a busy machine, too. */
const LIMIT_MS = 25_000
const NAMES = ['default', 's1', 's2']

/** How a command ends by itself. `code`: its exit code; `dies`: what it kills; otherwise it runs until it is killed. */
const COMMANDS = {
  plain: { weight: 6, text: ({ id }) => `printf 'out %s\\n' ${id}`, out: ({ id }) => `out ${id}\n`, code: 0 },
  fails: {
    weight: 2,
    text: ({ id }) => `echo ${id}; echo bad ${id} >&2; (exit 7)`,
    out: ({ id }) => `${id}\n`,
    err: ({ id }) => `bad ${id}\n`,
    code: 7,
  },
  big: {
    weight: 2,
    text: () => "head -c 300000 /dev/zero | tr '\\0' x",
    out: () => 'x'.repeat(300_000),
    code: 0,
  },
  nap: { weight: 2, text: ({ id }) => `sleep 0.03; echo ${id}`, out: ({ id }) => `${id}\n`, code: 0 },
  forks: {
    weight: 1,
    text: ({ id }) => `sleep 0.01 & wait $!; echo ${id}`,
    out: ({ id }) => `${id}\n`,
    code: 0,
  },
  endless: { weight: 2, text: ({ id }) => `echo ${id}; sleep 60`, out: ({ id }) => `${id}\n` },
  endlessTree: {
    weight: 1,
    text: ({ id }) => `echo ${id}; (sleep 60 & sleep 60) | cat`,
    out: ({ id }) => `${id}\n`,
  },
  stubborn: { weight: 1, text: () => `(trap '' TERM; sleep 60; sleep 60)`, out: () => '' },
  substitution: {
    weight: 2,
    text: () => 'seq 100 > >(sed s/^/x/)',
    out: () => Array.from({ length: 100 }, (_, at) => `x${at + 1}\n`).join(''),
    code: 0,
  },
  // It must live on, whatever later commands of the session do.
  background: {
    weight: 2,
    text: ({ id }) => `sleep 600 & echo $! > bg-${id}; echo ${id}`,
    out: ({ id }) => `${id}\n`,
    code: 0,
  },
  // As a container runtime moves its processes.
  endlessInOwnGroup: {
    weight: 1,
    text: ({ id }) => `${MOVE_TO_GROUP}; echo ${id}; sleep 60`,
    out: ({ id }) => `${id}\n`,
  },
  execs: { weight: 1, text: ({ id }) => `echo ${id}; exec true`, out: ({ id }) => `${id}\n`, code: 0 },
  killsByName: {
    weight: 1,
    // A session has a pid namespace of its own then.
    mode: 'isolated',
    text: ({ id }) => `echo ${id}; pkill -9 bash; sleep 60`,
    out: ({ id }) => `${id}\n`,
    dies: 'shell',
  },
  exits: { weight: 2, text: ({ id }) => `echo ${id}; exit 3`, out: ({ id }) => `${id}\n`, code: 3 },
  killsShell: {
    weight: 1,
    text: ({ id }) => `echo ${id}; kill -9 $BASHPID`,
    out: ({ id }) => `${id}\n`,
    dies: 'shell',
  },
  killsStandby: { weight: 1, text: () => KILL_STANDBY, out: () => '', code: 0, dies: 'standby' },
  killsSupervisor: {
    weight: 1,
    text: () => `${KILL_SUPERVISOR}; sleep 60`,
    out: () => '',
    dies: 'supervisor',
  },
  killsSupervisorAndGoesOn: {
    weight: 1,
    text: () => KILL_SUPERVISOR,
    out: () => '',
    code: 0,
    dies: 'supervisor',
  },
}

/** $PPID of a promoted standby is still the supervisor; anything else is left alone. */
const KILL_SUPERVISOR =
  'read -r _ _ _ p _ < /proc/$BASHPID/stat; if [ "$p" = "$PPID" ] && [ "$p" -gt 1 ] && grep -q nacre /proc/$p/comm; then kill -9 $p; fi'
/** Fails without a group that this user may divide. */
const MOVE_TO_GROUP = [
  "g=$(awk '$3 == \"cgroup2\" { print $2; exit }' /proc/mounts)$(sed -n 's/^0:://p' /proc/self/cgroup)/own",
  'mkdir "$g" 2>/dev/null && bash -c \'echo $$ > "$0/cgroup.procs" && exec sleep 60\' "$g" 2>/dev/null & true',
].join('; ')
/** It can also be a process that has just been forked. */
const KILL_STANDBY =
  'for p in $(cat /proc/$PPID/task/$PPID/children 2>/dev/null); do grep -q nacre-standby /proc/$p/comm 2>/dev/null && kill -9 $p 2>/dev/null; done; sleep 0.03'

const PROCESSES = {
  prints: { weight: 4, text: ({ id }) => `echo ${id}; exit 5`, out: ({ id }) => `${id}\n`, code: 5 },
  big: {
    weight: 1,
    text: () => "head -c 900000 /dev/zero | tr '\\0' y",
    out: () => 'y'.repeat(900_000),
    code: 0,
  },
  naps: { weight: 2, text: ({ id }) => `sleep 0.05; echo ${id}`, out: ({ id }) => `${id}\n`, code: 0 },
  cat: { weight: 3, text: () => 'cat', out: ({ data }) => data, code: 0, options: { input: 'pipe' } },
  terminal: {
    weight: 2,
    text: () => 'stty -echo; echo ready; read -r x; echo "got $x"',
    out: () => 'ready\r\ngot hi\r\n',
    code: 0,
    options: { pty: true },
  },
  endless: { weight: 3, text: ({ id }) => `echo ${id}; sleep 60`, out: ({ id }) => `${id}\n` },
  // Without control groups, a process in a session of its own survives the death of the supervisor.
  tree: {
    weight: 1,
    text: ({ mode }) => `${mode === 'nogroups' ? '' : 'setsid '}sleep 60 & sleep 60 & wait`,
    out: () => '',
  },
  stubborn: { weight: 1, text: () => `trap '' TERM; sleep 60; sleep 60`, out: () => '' },
}

const CALLS = {
  exec: 10,
  execStream: 8,
  startProcess: 8,
  startService: 2,
  touch: 10,
  sandboxCall: 5,
  files: 3,
  setEnvVars: 2,
  deleteSession: 1,
  createSession: 2,
}

const weightsOf = (kinds) =>
  Object.fromEntries(Object.entries(kinds).map(([name, { weight }]) => [name, weight]))

let rounds = 0

/** Runs a round. Returns the number of calls, the violations, and the last calls. */
export async function runRound(seed, mode) {
  const random = createRandom(seed)
  const tag = `nacre-chaos-${process.pid}-${++rounds}`
  const base = realpathSync(mkdtempSync(path.join(os.tmpdir(), `${tag}-`)))
  const round = { calls: 0, violations: [], trace: [], began: performance.now(), hung: false }
  const before = takeInventory()
  const onUnhandled = (error) => round.violations.push(`unhandled: ${error?.stack ?? error}`)
  process.on('unhandledRejection', onUnhandled)
  const count = 1 + random.below(3)
  const worlds = Array.from(
    { length: count },
    (_, at) => new World(round, mode, `${base}/${at}`, tag, random.below(2 ** 30)),
  )
  await Promise.all(worlds.map((world) => world.run()))
  const owned = belongings(tag, before)
  await Promise.all(worlds.map((world) => world.finish()))
  const left = await leftovers(tag, owned, before, 10_000)
  if (left.length > 0) round.violations.push(`left behind: ${left.join('; ')}`)
  process.off('unhandledRejection', onUnhandled)
  rmSync(base, { recursive: true, force: true })
  return { ...round, trace: round.trace.slice(-60) }
}

/** A sandbox with the programs that use it, and what the model knows about it. */
class World {
  constructor(round, mode, base, tag, seed) {
    this.round = round
    this.mode = mode
    this.name = path.basename(base)
    this.base = base
    this.random = createRandom(seed)
    this.seed = seed
    this.work = `${base}/work`
    this.stateDir = `${base}/state`
    mkdirSync(this.work, { recursive: true })
    this.sandbox = inMode(MODES[mode].env ?? {}, () => {
      const env = { NACRE_FUZZ: tag }
      const more = MODES[mode].options
      return new Sandbox({ cwd: this.work, stateDir: this.stateDir, env, forceKillAfterDelay: 100, ...more })
    })
    this.commands = Object.fromEntries(
      Object.entries(COMMANDS).filter(([, { mode: only = mode }]) => only === mode),
    )
    this.destroying = false
    this.cleaned = false
    /** When the call was made whose outcome is being checked. */
    this.asked = 0
    this.ids = 0
    /** The calls that have not settled. */
    this.pending = new Set()
    /** The current life of each session: deleting a session begins the next. */
    this.lives = new Map()
    this.allLives = []
    for (const name of NAMES) this.begin(name)
    this.processes = []
    this.shared = [new AbortController(), new AbortController()]
    this.controllers = [...this.shared]
  }

  begin(name) {
    const life = {
      name,
      file: `${this.work}/${name}-${this.allLives.length}`,
      /** When it certainly existed. */
      since: name === 'default' ? 0 : Number.POSITIVE_INFINITY,
      deleted: false,
      supervisorKilled: false,
      standbyKilled: false,
      commands: [],
    }
    this.lives.set(name, life)
    this.allLives.push(life)
  }

  async run() {
    const ends = this.random.chance(0.3) ? this.random.below(1500) : undefined
    const programs = Array.from({ length: 1 + this.random.below(3) }, (_, at) =>
      this.program(createRandom(this.seed + at + 1)),
    )
    const all = Promise.all(programs)
    await (ends === undefined ? all : Promise.race([all, sleep(ends)]))
    if (ends === undefined && this.random.chance(0.5)) {
      await this.settled()
      for (const life of this.lives.values()) await this.checkBackground(life)
    }
    for (const process of this.processes) if (this.random.chance(0.3)) void this.kill(process)
    this.all = all
  }

  async program(random) {
    const length = 10 + random.below(25)
    for (let at = 0; at < length && !this.destroying && this.round.violations.length === 0; at++) {
      const kind = random.weighted(CALLS)
      const call = this[kind](random)
      const then = random.below(10)
      if (then < 4 || this.pending.size > 12) await call
      else if (then < 7) await sleep(random.below(25))
      else if (then < 8) spin(random.below(800))
    }
  }

  /** Destroys the sandbox, and checks what it leaves. */
  async finish() {
    this.destroying = true
    const destroyed = this.call('destroy', this.sandbox.destroy(), () => undefined)
    if (this.random.chance(0.2)) void this.call('destroy again', this.sandbox.destroy(), () => undefined)
    await destroyed
    await this.all
    await this.settled()
    await this.call('exec after destroy', this.sandbox.exec('echo never'), ({ error }) =>
      error?.code === 'SANDBOX_DESTROYED' ? undefined : 'not SANDBOX_DESTROYED',
    )
    for (const life of this.allLives) this.checkFile(life)
    for (const process of this.processes) {
      const ran = readLines(`${this.work}/p-${process.id}`).length
      if ((ran > 1 && !process.isService) || (process.natural && ran !== 1))
        this.violate(`process ${process.id} ran ${ran} times`)
    }
    const listeners = this.controllers.flatMap(({ signal }) => getEventListeners(signal, 'abort'))
    if (listeners.length > 0) this.violate(`${listeners.length} listeners are left on AbortSignals`)
    const files = readFiles(this.stateDir)
    if (files.length > 0 && !this.hung) this.violate(`files are left: ${files.join(', ')}`)
  }

  async settled() {
    while (this.pending.size > 0) await Promise.all([...this.pending])
  }

  violate(message) {
    this.round.violations.push(`sandbox ${this.name}: ${message}`)
  }

  trace(text) {
    const at = (performance.now() - this.round.began).toFixed(1).padStart(8)
    this.round.trace.push(`${at} ${this.name} ${text}`)
  }

  /** Awaits a call within the limit, and checks its outcome. `check` returns a complaint or undefined. */
  call(what, promise, check) {
    this.round.calls++
    this.trace(`> ${what}`)
    const asked = performance.now()
    const settled = Promise.resolve(promise).then(
      (value) => ({ value }),
      (error) => ({ error }),
    )
    let timer
    const late = new Promise((resolve) => {
      timer = setTimeout(resolve, LIMIT_MS, undefined)
    })
    const done = Promise.race([settled, late]).then((outcome) => {
      clearTimeout(timer)
      this.pending.delete(done)
      if (outcome === undefined) {
        this.hung = true
        return this.violate(`hangs: ${what}`)
      }
      this.trace(`< ${what}: ${describe(outcome)}`)
      this.asked = asked
      const complaint = check(outcome)
      if (complaint !== undefined) this.violate(`${what}: ${complaint}: ${describe(outcome)}`)
      return outcome
    })
    this.pending.add(done)
    return done
  }

  /** Why this error is wrong, or undefined. `allowed` has further codes that are right. */
  wrong(error, life, signal, ...allowed) {
    const code = error.code
    if (allowed.includes(code)) return undefined
    if (code === 'ABORT_ERR') return signal?.aborted ? undefined : 'no abort'
    if (code === 'SANDBOX_DESTROYED') return this.destroying ? undefined : 'not destroyed'
    if (code === 'SESSION_DESTROYED') return this.destroying || life?.deleted ? undefined : 'not deleted'
    if (code === 'SESSION_NOT_FOUND')
      return life?.since < this.asked && !life.deleted ? 'the session exists' : undefined
    if (code === 'ENGINE_ERROR') return life?.supervisorKilled ? undefined : 'no supervisor was killed'
    return 'unexpected error'
  }

  /** A signal that is aborted already, in this tick, later or never; and the abort for this tick. */
  abort(random) {
    const when = random.weighted({ never: 12, before: 1, tick: 1, microtask: 1, later: 3 })
    if (when === 'never') return { signal: undefined, when, now() {} }
    const at = random.below(2)
    const shared = random.chance(0.3)
    if (shared && this.shared[at].signal.aborted) this.shared[at] = new AbortController()
    const controller = shared ? this.shared[at] : new AbortController()
    this.controllers.push(controller)
    if (when === 'before') controller.abort()
    if (when === 'later') setTimeout(() => controller.abort(), random.below(80))
    const now = () => {
      if (when === 'tick') controller.abort()
      if (when === 'microtask') queueMicrotask(() => controller.abort())
    }
    return { signal: controller.signal, when, now }
  }

  /** A command, with options after which it ends. */
  command(random) {
    const kind = random.weighted(weightsOf(this.commands))
    const life = this.lives.get(random.pick(NAMES))
    const id = ++this.ids
    const { text, out, err = () => '', code, dies } = COMMANDS[kind]
    const abort = this.abort(random)
    const endless = code === undefined && dies !== 'shell'
    const timeout = endless || random.chance(0.1) ? 1 + random.below(150) : 0
    const command = {
      kind,
      id,
      life,
      timeout,
      abort,
      dies,
      code,
      out: out({ id }),
      err: err({ id }),
      cancelled: false,
    }
    if (dies === 'supervisor') life.supervisorKilled = true
    // Programs of processes are killed by name, too.
    if (dies === 'standby' || kind === 'killsByName') life.standbyKilled = true
    life.commands.push(command)
    command.what = `#${id} ${kind} in ${life.name} timeout=${timeout} abort=${abort.when}`
    command.text = `echo ${id} "$LAST" >> ${path.basename(life.file)}; LAST=${id}; ${text({ id })}`
    // The shell may be in any directory only if a command changed it; none does.
    command.options = { sessionId: life.name, timeout, signal: abort.signal }
    return command
  }

  exec(random) {
    const command = this.command(random)
    const encoding = random.pick(['utf8', 'buffer'])
    const promise = this.sandbox.exec(command.text, { ...command.options, encoding })
    command.abort.now()
    return this.call(`exec ${command.what}`, promise, (outcome) => this.checkExec(command, outcome))
  }

  execStream(random) {
    const command = this.command(random)
    const reader = random.weighted({ events: 4, lines: 1, bytes: 1, none: 2, kill: 2, dispose: 1 })
    const leaves = random.chance(0.3) ? random.below(4) : Number.POSITIVE_INFINITY
    const pause = random.chance(0.3) ? random.below(40) : 0
    const signal = random.pick([undefined, 'SIGKILL', 'SIGINT'])
    command.cancelled = leaves !== Number.POSITIVE_INFINITY || reader === 'kill' || reader === 'dispose'
    const stream = this.sandbox.execStream(command.text, command.options)
    command.abort.now()
    const what = `execStream ${command.what} ${reader} leaves=${leaves} pause=${pause}`
    const read = async () => {
      if (reader === 'kill' || reader === 'dispose') {
        await sleep(pause)
        if (reader === 'dispose') await stream[Symbol.asyncDispose]()
        else if (typeof (await stream.kill(signal)) !== 'boolean') throw new Error('kill gives no boolean')
      }
      if (reader === 'lines' || reader === 'bytes') {
        // Both fail with the error of the run, which is checked with the result.
        try {
          let seen = 0
          for await (const _ of reader === 'lines' ? stream.lines() : stream.toReadableStream()) {
            await sleep(pause)
            if (seen++ >= leaves) break
          }
        } catch (error) {
          if (error.code === 'STREAM_LOCKED' || error instanceof TypeError) throw error
        }
      }
      if (reader !== 'events') return undefined
      const events = []
      for await (const event of stream) {
        events.push(event)
        if (pause > 0) await sleep(pause)
        if (events.length > leaves) return undefined
      }
      return events
    }
    const reading = this.call(`read ${what}`, read(), ({ value, error }) => {
      if (error !== undefined) return 'the reader fails'
      return value && checkEvents(value, command)
    })
    const result = reader === 'events' ? reading.then(() => stream.result) : stream.result
    return this.call(what, result, (outcome) => this.checkExec(command, outcome))
  }

  checkExec(command, { value, error }) {
    const { life, abort, timeout, kind, code, dies } = command
    const result = value ?? error?.result
    if (error !== undefined) {
      const wrong = this.wrong(error, life, abort.signal, ...(timeout > 0 ? ['COMMAND_TIMEOUT'] : []))
      if (wrong !== undefined) return wrong
      const mayLose =
        dies === 'supervisor' || life.commands.some((other) => other.kind === 'killsSupervisorAndGoesOn')
      if (error.code === 'ENGINE_ERROR' && !mayLose) return 'it killed no supervisor'
    }
    if (result !== undefined) {
      const [out, err] = [String(result.stdout), String(result.stderr)]
      // An `echo >&2` that is killed between its write to bash's buffer and the flush appears in stdout.
      if (!`${command.out}${command.err}`.startsWith(out)) return 'wrong stdout'
      if (!command.err.startsWith(err)) return `wrong stderr: ${err.slice(0, 300)}`
    }
    command.never =
      abort.when === 'before' || (result?.cancelled && result.exitCode === null && result.signal === null)
    // A shell that dies between two commands takes the changes of the first, and the second reports that.
    command.lost = result?.lostState?.some(({ kind: lost }) => lost === 'state')
    if (abort.when === 'before' && error === undefined) return 'it was aborted before'
    if (error !== undefined) return undefined
    if (result.timedOut) return 'a timeout is no error'
    if (result.cancelled) return command.cancelled ? undefined : 'not cancelled'
    command.complete = true
    if (dies === 'shell')
      return result.signal === 'SIGKILL' && result.sessionRestarted ? undefined : 'not killed'
    if (code === undefined) return 'it ends by itself'
    if (result.exitCode !== code) return `not exit code ${code}`
    if (String(result.stdout) !== command.out || String(result.stderr) !== command.err)
      return 'incomplete output'
    command.normal = !['exits', 'execs'].includes(kind) && dies === undefined
    return undefined
  }

  /** Each command ran at most once, in the order of the calls, and found the state that its predecessor left. */
  checkFile(life) {
    const ran = readLines(life.file).map((line) => line.split(' '))
    const ids = ran.map(([id]) => Number(id))
    if (ids.some((id, at) => at > 0 && id <= ids[at - 1]))
      this.violate(`order in ${life.name}: ${ids.join(' ')}`)
    let last
    for (const command of life.commands) {
      const at = ids.indexOf(command.id)
      if (command.complete && at < 0) this.violate(`#${command.id} in ${life.name} did not run`)
      if (command.never && at >= 0) this.violate(`#${command.id} in ${life.name} ran after its abort`)
      if (command.lost) last = undefined
      if (at >= 0 && last !== undefined && Number(ran[at][1]) !== last)
        this.violate(`#${command.id} in ${life.name} found LAST=${ran[at][1]} instead of ${last}`)
      if (command.normal) last = command.id
      else if (!command.never) last = undefined
    }
  }

  /** What commands have left in the background lives for as long as the session. */
  async checkBackground(life) {
    const started = life.commands.filter(({ kind, complete }) => kind === 'background' && complete)
    if (life.supervisorKilled || life.since > this.asked || started.length === 0) return
    const files = started.map(({ id }) => `bg-${id}`)
    const command = `kill -0 $(cat ${files.join(' ')})`
    await this.call(
      `${command} in ${life.name}`,
      this.sandbox.exec(command, { sessionId: life.name }),
      (outcome) => {
        const { value, error } = outcome
        if (error !== undefined) return this.wrong(error, life)
        return value.exitCode === 0 ? undefined : `a background process was killed: ${value.stderr}`
      },
    )
  }

  async startProcess(random, isService = false) {
    const kind = random.weighted(weightsOf(PROCESSES))
    const life = this.lives.get(random.pick(NAMES))
    const id = `${this.name}-${++this.ids}`
    const { text, out, code, options } = PROCESSES[kind]
    const data = 'd'.repeat(random.pick([1, 1000, 200_000]))
    const abort = this.abort(random)
    const timeout = random.chance(0.15) ? 1 + random.below(100) : 0
    const model = {
      id,
      kind,
      life,
      code,
      abort,
      timeout,
      out: out({ id, data }),
      killed: false,
      data,
      isService,
    }
    const start = isService
      ? (command, more) =>
          this.sandbox.startService(command, {
            ...more,
            healthCheck: random.pick(HEALTH_CHECKS),
            restart: random.pick(['never', 'on-failure']),
            restartDelay: 20,
          })
      : (command, more) => this.sandbox.startProcess(command, more)
    const command = `echo x >> p-${id}; ${text({ id, mode: this.mode })}`
    const promise = start(command, {
      sessionId: life.name,
      processId: id,
      timeout,
      signal: abort.signal,
      ...options,
    })
    this.processes.push(model)
    abort.now()
    const what = `start${isService ? 'Service' : ''} ${id} ${kind} in ${life.name} timeout=${timeout} abort=${abort.when}`
    const tolerated = isService ? ['PROCESS_EXITED_BEFORE_READY', 'PROCESS_READY_TIMEOUT'] : []
    const { value } =
      (await this.call(what, promise, ({ error }) => {
        if (error === undefined) return abort.when === 'before' ? 'it was aborted before' : undefined
        // A service whose process has ended can be forgotten before its health check has seen the end.
        if (isService) tolerated.push(...this.forgotten())
        if (life.standbyKilled) tolerated.push('SPAWN_FAILED')
        return this.wrong(error, life, abort.signal, ...tolerated)
      })) ?? {}
    if (value === undefined) return
    model.handle = value
    if (isService) return
    void this.call(`wait ${id}`, this.ended(model), ({ value: end, error }) => {
      if (error !== undefined) return this.wrong(error, life)
      return this.checkEnd(model, end)
    }).then(() => this.logs(model))
    await this.feed(model, random)
  }

  startService(random) {
    return this.startProcess(random, true)
  }

  /** The end of a process. What runs without end is killed before the time is up. */
  async ended(model) {
    const endless = setTimeout(() => this.kill(model), 2000)
    try {
      return await model.handle.wait()
    } finally {
      clearTimeout(endless)
    }
  }

  async feed({ handle, kind, data, life, id }, random) {
    const checks = ({ error }) =>
      error &&
      this.wrong(error, life, undefined, 'INPUT_CLOSED', 'PROCESS_EXITED_BEFORE_READY', ...this.forgotten())
    if (kind === 'cat') {
      const half = Math.ceil(data.length / 2)
      const writes = [handle.write(data.slice(0, half))]
      // It may fail before the second one is made.
      writes[0].catch(() => {})
      if (random.chance(0.5)) await sleep(random.below(20))
      if (half < data.length) writes.push(handle.write(data.slice(half)))
      await this.call(`write ${id}`, Promise.all(writes), checks)
      await this.call(`closeInput ${id}`, handle.closeInput(), checks)
    }
    if (kind === 'terminal') {
      await this.call(`waitForLog ${id}`, handle.waitForLog('ready'), checks)
      await this.call(`type ${id}`, handle.write('hi\n'), checks)
    }
  }

  forgotten() {
    return this.cleaned ? ['PROCESS_NOT_FOUND'] : []
  }

  kill(model, signal) {
    if (model.handle === undefined) return undefined
    model.killed = true
    return this.call(`kill ${model.id} ${signal ?? ''}`, model.handle.kill(signal), ({ error, value }) => {
      if (error !== undefined) return this.wrong(error, model.life, undefined, ...this.forgotten())
      return typeof value === 'boolean' ? undefined : 'no boolean'
    })
  }

  checkEnd(model, { exitCode, signal, reason }) {
    const { code, killed, timeout, abort, life } = model
    if (reason === 'exit' && code !== undefined) {
      model.natural = exitCode === code
      if (model.natural) return undefined
    }
    const wasKilled = killed || this.destroying || life.deleted || abort.signal?.aborted
    if (reason === 'killed') return wasKilled ? undefined : 'not killed'
    if (reason === 'timeout') return timeout > 0 ? undefined : 'no timeout'
    if (reason === null) return life.supervisorKilled ? undefined : 'its supervisor was not killed'
    if (reason === 'signal' && signal === 'SIGKILL' && (life.standbyKilled || life.supervisorKilled))
      return undefined
    return 'a wrong end'
  }

  logs(model) {
    // What the end says later says nothing of a log that was read before it.
    const { handle, life, id, out, natural } = model
    return this.call(`getLogs ${id}`, handle.getLogs(), ({ value, error }) => {
      if (error !== undefined) return this.wrong(error, life, undefined, ...this.forgotten())
      if (!out.startsWith(value.stdout)) return 'wrong bytes'
      return natural && value.stdout !== out ? 'incomplete log' : undefined
    })
  }

  /** A call of a process. */
  touch(random) {
    const started = this.processes.filter(({ handle }) => handle !== undefined)
    const model = random.pick(started)
    const kind = random.weighted({
      kill: 3,
      logs: 2,
      output: 4,
      wait: 2,
      stats: 2,
      resize: 1,
      status: 1,
      waitForLog: 1,
      restart: 1,
      getHealth: 1,
    })
    if (model === undefined) return undefined
    const { handle, life, id, out, isService } = model
    if (kind === 'kill') return this.kill(model, random.pick([undefined, 'SIGKILL', 'SIGINT']))
    if (isService && ['restart', 'getHealth'].includes(kind)) {
      const codes = ['PROCESS_NOT_FOUND', 'PROCESS_EXITED_BEFORE_READY', 'PROCESS_READY_TIMEOUT']
      return this.call(`${kind} ${id}`, handle[kind](), ({ error }) => {
        // A kill ends a start of the service like an abort.
        if (model.killed) codes.push('ABORT_ERR')
        if (life.standbyKilled) codes.push('SPAWN_FAILED')
        return error && this.wrong(error, life, model.abort.signal, ...codes)
      })
    }
    if (isService) return undefined
    if (kind === 'logs') return this.logs(model)
    const abort = this.abort(random)
    const check =
      (...codes) =>
      ({ error }) =>
        error && this.wrong(error, life, abort.signal, ...codes, ...this.forgotten())
    const timeout = 1 + random.below(60)
    if (kind === 'wait')
      return this.after(
        abort,
        `wait ${id}`,
        handle.waitForExit({ timeout, signal: abort.signal }),
        check('PROCESS_WAIT_TIMEOUT'),
      )
    if (kind === 'stats') return this.call(`stats ${id}`, handle.stats(), check('PROCESS_NOT_FOUND'))
    if (kind === 'resize')
      return this.call(
        `resize ${id}`,
        handle.resize(100, 30),
        model.kind === 'terminal' ? check() : () => undefined,
      )
    if (kind === 'status') return this.call(`status ${id}`, handle.getStatus(), check())
    if (kind === 'waitForLog')
      return this.after(
        abort,
        `waitForLog ${id}`,
        handle.waitForLog('never there', { timeout, signal: abort.signal }),
        check('PROCESS_READY_TIMEOUT', 'PROCESS_EXITED_BEFORE_READY'),
      )
    const leaves = random.chance(0.4) ? random.below(3) : Number.POSITIVE_INFINITY
    const pause = random.below(20)
    const read = async () => {
      let text = ''
      let seen = 0
      for await (const event of handle.output({ signal: abort.signal, follow: random.chance(0.7) })) {
        if (event.type === 'stdout') text += event.data
        if (!out.startsWith(text)) return 'wrong bytes'
        if (event.type === 'exit' && event.reason === 'exit' && text !== out) return 'incomplete output'
        if (seen++ >= leaves) break
        await sleep(pause)
      }
      return undefined
    }
    return this.after(
      abort,
      `output ${id} leaves=${leaves}`,
      read(),
      (outcome) => outcome.value ?? check()(outcome),
    )
  }

  after(abort, what, promise, check) {
    abort.now()
    return this.call(what, promise, check)
  }

  sandboxCall(random) {
    const { sandbox } = this
    const kind = random.weighted({
      listProcesses: 2,
      getProcess: 2,
      listSessions: 2,
      cleanupCompletedProcesses: 3,
      killAllProcesses: 1,
      history: 1,
      killProcess: 1,
    })
    const some = random.pick(this.processes)
    if (kind === 'cleanupCompletedProcesses') this.cleaned = true
    if (kind === 'killAllProcesses') for (const model of this.processes) model.killed = true
    if (kind === 'killProcess' && some) some.killed = true
    const calls = {
      getProcess: () => sandbox.getProcess(some?.id ?? 'none'),
      killProcess: () => sandbox.killProcess(some?.id ?? 'none'),
      history: async () => (await sandbox.getSession('default'))?.history(),
    }
    const promise = (calls[kind] ?? (() => sandbox[kind]()))()
    return this.call(
      kind,
      promise,
      ({ error }) =>
        error &&
        this.wrong(error, undefined, undefined, ...(kind === 'killProcess' ? ['PROCESS_NOT_FOUND'] : [])),
    )
  }

  files(random) {
    const life = this.lives.get(random.pick(NAMES))
    const name = `f-${++this.ids}`
    const data = 'f'.repeat(random.pick([0, 10, 100_000]))
    const abort = this.abort(random)
    const run = async () => {
      const session = await this.sandbox.getSession(life.name)
      if (session === null) return undefined
      await session.files.write(name, data, { signal: abort.signal })
      return session.files.read(name, { signal: abort.signal })
    }
    const promise = run()
    abort.now()
    return this.call(`files ${name} in ${life.name} abort=${abort.when}`, promise, ({ value, error }) => {
      if (error !== undefined) return this.wrong(error, life, abort.signal)
      return value === undefined || value === data ? undefined : 'other content'
    })
  }

  setEnvVars(random) {
    const life = this.lives.get(random.pick(NAMES))
    const promise = this.sandbox.setEnvVars({ [`V${random.below(3)}`]: 'value' }, { sessionId: life.name })
    return this.call(`setEnvVars in ${life.name}`, promise, ({ error }) => error && this.wrong(error, life))
  }

  deleteSession(random) {
    const life = this.lives.get(random.pick(NAMES))
    const promise = this.sandbox.deleteSession(life.name)
    life.deleted = true
    this.begin(life.name)
    return this.call(
      `deleteSession ${life.name}`,
      promise,
      ({ error }) => error && this.wrong(error, { ...life, deleted: life.since > this.asked }),
    )
  }

  createSession(random) {
    const life = this.lives.get(random.pick(NAMES.slice(1)))
    const promise = this.sandbox.createSession({ id: life.name })
    return this.call(`createSession ${life.name}`, promise, ({ error }) => {
      if (error === undefined) life.since = performance.now()
      return error && this.wrong(error, life, undefined, 'SESSION_ALREADY_EXISTS')
    })
  }
}

const HEALTH_CHECKS = [
  { log: 'ready', timeout: 300 },
  { command: 'true', interval: 20, timeout: 2000 },
  { log: /\d+/, timeout: 300 },
]

function checkEvents(events, command) {
  const last = events.at(-1)
  if (last === undefined || !['complete', 'error'].includes(last.type)) return 'the last event is missing'
  const text = (type) => events.map((event) => (event.type === type ? event.data : '')).join('')
  if (!`${command.out}${command.err}`.startsWith(text('stdout')) || !command.err.startsWith(text('stderr')))
    return 'wrong bytes'
  const whole = last.type === 'complete' && command.code !== undefined && !last.result.cancelled
  return whole && text('stdout') !== command.out ? 'incomplete output' : undefined
}

function describe({ value, error }) {
  if (error !== undefined) return `${error.code ?? error.stack}: ${error.shortMessage ?? error.message}`
  if (value?.exitCode !== undefined && value.stdout !== undefined) {
    const { exitCode, signal, cancelled, sessionRestarted, stdout } = value
    return JSON.stringify({
      exitCode,
      signal,
      cancelled,
      sessionRestarted,
      stdout: String(stdout).slice(0, 40),
    })
  }
  return (JSON.stringify(value) ?? 'undefined').slice(0, 150)
}

function readLines(file) {
  try {
    return readFileSync(file, 'utf8').split('\n').slice(0, -1)
  } catch {
    return []
  }
}
