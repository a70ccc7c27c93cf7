/** What each tool does. */
import type { Signal } from 'nacre'
import { aborts, clock, inTime, isCode } from 'nacre/internal'
import { type Inputs, KEYS } from './definitions.js'
import { toPlainText } from './plain.js'
import type { ToolContext, ToolName, ToolReply } from './public.js'
import { bodyOf, endOf, formatTime, reply, replyOf } from './reply.js'
import type { Run } from './run.js'
import { ToolError } from './schema.js'
import type { Host, Scope } from './scope.js'
import { Service } from './service.js'
import { formatCount, shorten, shortenLine } from './shorten.js'
import { useWorkspace } from './workspace.js'

/** One call of a tool. */
interface Call<Input> {
  host: Host
  scope: Scope
  input: Input
  context: ToolContext
  /** When the reply must come, as `performance.now()` tells it. */
  until: number
}

type Handlers = { [Name in ToolName]: (call: Call<Inputs[Name]>) => Promise<ToolReply> }

const MOST_LINES = 1000
/** Kept free for the header, where it has fields of its own. */
const HEADER_TOKENS = 40
const SERVICE_LINES = 20
const JOB_BYTES = 256 * 1024
const MOST_JOBS = 50
const PROGRESS_INTERVAL = 1000
const PROGRESS_LENGTH = 120
/** As the engine has it, so that a name can be part of a header. Ids of runs are no names. */
const NAME = /^(?!r\d+$)[A-Za-z0-9._-]{1,64}$/

export const handlers: Handlers = {
  async bash({ host, scope, input, context, until }) {
    const plan = {
      command: input.command,
      cwd: input.cwd,
      timeout: milliseconds(input.timeout) ?? host.options.timeout,
      stdin: input.stdin,
    }
    const yieldAfter = timeLeft(until, milliseconds(input.yield_after) ?? host.options.yieldAfter)
    const run = await host.start(scope, input.session, plan, input.pty ?? false, yieldAfter)
    const cancel = () => void run.kill('cancel').catch(() => {})
    context.signal?.addEventListener('abort', cancel, { once: true })
    const stop = reportProgress(host, run, context)
    try {
      if (context.signal?.aborted) await run.kill('cancel')
      // A command may have to wait for the one before it.
      await inTime(timeLeft(until), run.yielded)
      if (context.signal?.aborted) await run.ended
    } finally {
      stop()
      context.signal?.removeEventListener('abort', cancel)
    }
    return replyTo(host, run, input.max_tokens, false)
  },

  async wait({ host, scope, input, context, until }) {
    const ids = input.id.split(/[\s,]+/).filter((id) => id !== '')
    const limit = timeLeft(until, milliseconds(input.seconds) ?? 30_000)
    const [first, ...others] = ids
    if (first !== undefined && others.length === 0 && scope.services.has(first)) {
      const service = serviceOf(scope, first)
      await inTime(
        limit,
        aborts.orAborted(
          service.ready.catch(() => {}),
          context.signal,
        ),
      )
      return replyToService(host, service, input.max_tokens)
    }
    const runs = ids.map((id) => runOf(scope, id))
    const run = await waitForFirst(host, runs, { timeout: limit, log: input.until }, context)
    return replyTo(host, run, input.max_tokens)
  },

  async write({ host, scope, input, context, until }) {
    const run = runOf(scope, input.id)
    const { text = '', key, eof = false } = input
    if (input.text === undefined && key === undefined && !eof && input.enter !== true)
      throw new ToolError('There is nothing to write: give text, key or eof.')
    if (run.failure !== undefined) throw run.failure
    if (run.end !== undefined) throw new ToolError(`${run.id} has ended: ${endOf(run.end)}.`, 'RUN_ENDED')
    if (!run.hasInput)
      throw new ToolError(`${run.id} has no open input: start it with stdin or pty.`, 'INPUT_CLOSED')
    if (key !== undefined && key !== 'enter' && key !== 'tab' && !run.hasTerminal)
      throw new ToolError(`${run.id} has no terminal for keys: start it with pty, or use kill with a signal.`)
    const enter = input.enter ?? (key === undefined && !eof)
    const newline = run.hasTerminal ? '\r' : '\n'
    const typed =
      text + (enter ? newline : '') + (key === undefined ? '' : key === 'enter' ? newline : KEYS[key])
    const end = clock.performance.now() + timeLeft(until, milliseconds(input.wait) ?? 5000)
    if (typed !== '') await inTime(timeLeft(end), run.write(typed))
    if (eof) await (run.hasTerminal ? run.write('\x04') : run.closeInput())
    await waitForFirst(host, [run], { timeout: timeLeft(end) }, context)
    return replyTo(host, run, input.max_tokens)
  },

  async output({ host, scope, input }) {
    const { style } = host
    const run = input.id === undefined ? scope.lastRun : runOf(scope, input.id)
    if (run === undefined) throw new ToolError('Nothing has run yet.', 'RUN_NOT_FOUND')
    const tokens = budget(host, input.max_tokens)
    if (input.screen) {
      const { text, cursor } = await run.screen()
      const body = bodyOf(style, { head: text, tail: '', missing: 0 }, tokens - HEADER_TOKENS, WHOLE)
      return reply(style, {
        header: [`${run.id} screen`, `cursor in row ${cursor.row}, column ${cursor.column}`],
        body,
      })
    }
    const { grep, context = 0, from_line: fromLine = 1 } = input
    const found = await run.logLines({
      fromLine: fromLine === 0 ? 1 : fromLine,
      lines: MOST_LINES,
      ...(grep === undefined ? {} : { grep, context }),
    })
    const rows: string[] = []
    let next = found.next
    let left = tokens - HEADER_TOKENS
    for (const { number, text } of found.lines) {
      const row = `${number}: ${shortenLine(style.redactor.hide(toPlainText(text)))}`
      const used = style.countTokens(row) + 1
      if (used > left && rows.length > 0) {
        next = number
        break
      }
      rows.push(
        used > left ? shorten({ head: row, tail: '', missing: 0 }, left, style.countTokens).text : row,
      )
      left -= used
    }
    const { total, first, matches } = found
    const header = [
      run.id,
      `${formatCount(total)} lines${matches === null ? '' : `, ${formatCount(matches)} match`}`,
      first > 1 ? `lines before ${first} are not kept` : undefined,
      next === null ? 'end' : `next: from_line ${next}`,
    ]
    return reply(style, { header, body: { text: rows.join('\n'), missing: 0 }, data: { id: run.id } })
  },

  async kill({ host, scope, input, until }) {
    const { id } = input
    if (scope.services.has(id)) {
      const service = serviceOf(scope, id)
      const isKilled = await inTime(timeLeft(until), service.kill(input.signal as NodeJS.Signals | undefined))
      return reply(host.style, {
        header: [`service ${id} ${isKilled?.value === false ? 'had ended' : 'killed'}`],
      })
    }
    const run = runOf(scope, id)
    if (!run.isOver) await inTime(timeLeft(until), run.kill('tool', input.signal as Signal | undefined))
    return replyTo(host, run, undefined)
  },

  async service({ host, scope, input, context, until }) {
    const { name, command } = input
    if (command === undefined) {
      return replyToService(host, serviceOf(scope, name), input.max_tokens)
    }
    if (!NAME.test(name))
      throw new ToolError('The argument "name" must be 1 to 64 of A-Z a-z 0-9 . _ - and not like "r3".')
    if (input.port !== undefined && input.log !== undefined)
      throw new ToolError('Give port or log, not both.')
    const before = scope.services.get(name)
    if (before !== undefined && !before.isOver)
      throw new ToolError(`The service "${name}" runs already. Use kill first.`, 'PROCESS_ALREADY_EXISTS')
    const running = host.scopes
      .flatMap(({ services }) => [...services.values()])
      .filter(({ isOver }) => !isOver)
    if (running.length >= host.options.maxRuns)
      throw new ToolError(`${running.length} services run already. Kill one.`, 'TOO_MANY_RUNS')
    const readyIn = (input.ready_in ?? 30) * 1000
    const { session } = await host.session(scope, input.session)
    const plan = {
      command,
      port: input.port,
      log: input.log,
      readyIn,
      restart: input.restart ?? 'on-failure',
    } as const
    const service = new Service(name, plan, host.sandbox, session)
    scope.services.set(name, service)
    forgetOldServices(scope, host.options.keepRuns)
    if (host.isClosed) await service.kill()
    const cancel = () => void service.kill().catch(() => {})
    context.signal?.addEventListener('abort', cancel, { once: true })
    try {
      if (context.signal?.aborted) cancel()
      await inTime(timeLeft(until), service.ready)
    } finally {
      context.signal?.removeEventListener('abort', cancel)
    }
    return replyToService(host, service, input.max_tokens)
  },

  async sessions({ host, scope, input }) {
    const { style } = host
    if (input.open !== undefined) {
      const { handle, open } = await host.open(input.open, input.cwd)
      const { cwd } = await open.session.exec(':')
      const text = `[session ${handle} | cwd ${toPlainText(cwd).replaceAll('\n', ' ')}]`
      return { text, isError: false, data: { cwd, session: handle } }
    }
    if (input.end !== undefined) {
      await host.end(input.end)
      return reply(style, { header: ['session ended'] })
    }
    const names = [...scope.sessions.keys()]
    const rows = names.map((name) => {
      const running = [...scope.runs.values()].filter((run) => run.sessionName === name && !run.isOver)
      const runs = running.map(({ id, command, age }) => `${id} (${formatTime(age)}): ${firstLine(command)}`)
      return [name, ...runs].join('\n  ')
    })
    const services = [...scope.services.values()].map(
      (service) => `service ${service.name}: ${stateOf(service)}`,
    )
    const text = style.redactor.hide([...rows, ...services].join('\n'))
    return reply(style, { header: [`sessions: ${names.length}`], body: { text, missing: 0 } })
  },

  async jobs({ host, scope, input, until }) {
    const { style, sandbox } = host
    const { jobs } = sandbox
    if (input.start !== undefined) {
      const { jobId } = await jobs.start({ command: input.start })
      scope.jobs.add(jobId)
      return reply(style, {
        header: [`job ${jobId} started`],
        next: [`use jobs with id "${jobId}"`],
        data: { job: jobId },
      })
    }
    if (input.id === undefined) {
      const all = await jobs.list()
      // Callers that share a server do not see each other's jobs.
      const own = host.options.requireSession ? all.filter(({ jobId }) => scope.jobs.has(jobId)) : all
      const rows = own
        .slice(-MOST_JOBS)
        .map(({ jobId, status, command }) => `${jobId} | ${jobStateOf(status)} | ${firstLine(command ?? '')}`)
      const missing = own.length - rows.length
      const header = [`jobs: ${own.length}`, missing > 0 ? `${missing} older ones left out` : undefined]
      return reply(style, { header, body: { text: toPlainText(rows.join('\n')), missing: 0 } })
    }
    const { id } = input
    const explain = (error: unknown): never => {
      const other = isCode(error, 'JOB_NOT_FOUND') ? otherKindOf(scope, id) : undefined
      throw other === undefined ? error : new ToolError(other, 'JOB_NOT_FOUND')
    }
    if (input.cancel) await inTime(timeLeft(until), jobs.cancel(id).catch(explain))
    const read = jobs.read(id, input.cursor ?? 0, { maxBytes: JOB_BYTES })
    const { raw, cursor, bytesFetched, status } = await read.catch(explain)
    const isEnd = bytesFetched < JOB_BYTES
    const body = bodyOf(
      style,
      { head: raw, tail: '', missing: 0 },
      budget(host, input.max_tokens) - HEADER_TOKENS,
      {
        start: (input.cursor ?? 0) > 0,
        end: !isEnd || status.alive,
      },
    )
    const omission = body.missing > 0 ? `${formatCount(body.missing)} characters left out` : undefined
    const next = isEnd && !status.alive ? 'end' : `next: cursor ${cursor}`
    return reply(style, {
      header: [`job ${input.id}`, jobStateOf(status), omission, next],
      body,
      data: { job: input.id },
    })
  },

  async workspace({ host, scope, input, context, until }) {
    const tokens = budget(host, input.max_tokens) - HEADER_TOKENS
    return useWorkspace(host, scope, input, tokens, until, context.signal)
  },
}

const WHOLE = { start: false, end: false }

function budget({ options }: Host, tokens: number | undefined): number {
  return tokens ?? options.maxTokens
}

function milliseconds(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : seconds * 1000
}

/** Milliseconds until a moment, at most `limit`. */
function timeLeft(until: number, limit = Number.POSITIVE_INFINITY): number {
  return Math.max(0, Math.min(limit, until - clock.performance.now()))
}

function runOf(scope: Scope, id: string): Run {
  const { runs, services } = scope
  const run = runs.get(id)
  if (run !== undefined) return run
  const ids = [...runs.values()].filter(({ isOver }) => !isOver).map((running) => running.id)
  for (const { name, isOver } of services.values()) if (!isOver) ids.push(`service ${name}`)
  const running = ids.length === 0 ? 'Nothing runs.' : `Running: ${ids.join(', ')}.`
  throw new ToolError(otherKindOf(scope, id) ?? `There is no run "${id}". ${running}`, 'RUN_NOT_FOUND')
}

function serviceOf(scope: Scope, name: string): Service {
  const { services } = scope
  const service = services.get(name)
  if (service !== undefined) return service
  throw new ToolError(
    otherKindOf(scope, name) ??
      `There is no service "${name}". Services: ${[...services.keys()].join(', ') || 'none'}.`,
    'SERVICE_NOT_FOUND',
  )
}

/** What has the id that a call gave for something else, and the call to make. Undefined if nothing has it. */
function otherKindOf({ runs, services, jobs, sessions }: Scope, id: string): string | undefined {
  const service = services.get(id)
  if (service !== undefined)
    return `"${id}" is a service (${stateOf(service)}), not a run. Call service with name "${id}" and no command for its state and last lines, or kill to end it.`
  if (runs.has(id)) return `"${id}" is a run. Call output or wait with id "${id}".`
  if (jobs.has(id)) return `"${id}" is a job. Call jobs with id "${id}".`
  return sessions.has(id) ? `"${id}" is a session. Call sessions for what runs in it.` : undefined
}

function forgetOldServices({ services }: Scope, most: number): void {
  const ended = [...services.values()].filter(({ isOver }) => isOver)
  for (const { name } of ended.slice(0, Math.max(0, ended.length - most))) services.delete(name)
}

/** Waits for the first of several runs that ends, waits for input or prints a line. */
async function waitForFirst(
  host: Host,
  runs: Run[],
  limits: { timeout: number; log?: string | undefined },
  context: ToolContext,
): Promise<Run> {
  const over = runs.find(({ isOver }) => isOver)
  const [first] = runs
  if (first === undefined) throw new ToolError('The argument "id" must be the id of a run.')
  if (over !== undefined) return over
  const stopping = new AbortController()
  const signal =
    context.signal === undefined ? stopping.signal : AbortSignal.any([stopping.signal, context.signal])
  const stop = reportProgress(host, first, context)
  try {
    const waits = runs.map(async (run) => {
      await run.waitFor({ ...limits, signal })
      return run
    })
    for (const wait of waits) wait.catch(() => {})
    return await Promise.race(waits)
  } catch (error) {
    // The caller no longer wants to wait; the run goes on.
    if (context.signal?.aborted) return first
    throw error
  } finally {
    stopping.abort()
    stop()
  }
}

async function replyTo(host: Host, run: Run, tokens: number | undefined, isLater = true): Promise<ToolReply> {
  if (run.failure !== undefined) throw run.failure
  const asked = run.isOver ? [] : await host.asked(run)
  return replyOf(host.style, run, budget(host, tokens), isLater, asked)
}

async function replyToService(host: Host, service: Service, tokens: number | undefined): Promise<ToolReply> {
  if (service.failure !== undefined) throw service.failure
  const { process, name, plan } = service
  if (process === undefined || !service.isReady)
    return reply(host.style, {
      header: [`service ${name} starts`, formatTime(clock.performance.now() - service.startedAt)],
    })
  const lines = await service.lastLines(SERVICE_LINES)
  const text = lines.map((line) => line.text).join('\n')
  const body = bodyOf(
    host.style,
    { head: text, tail: '', missing: 0 },
    Math.min(budget(host, tokens) - HEADER_TOKENS, 1000),
    WHOLE,
  )
  const header = [
    `service ${name} ${stateOf(service)}`,
    plan.port === undefined ? undefined : `port ${plan.port}`,
    process.restarts > 0 ? `restarts: ${process.restarts}` : undefined,
  ]
  return reply(host.style, { header, body })
}

function stateOf({ process, isReady, isOver, failure }: Service): string {
  if (failure !== undefined) return 'failed'
  if (process === undefined || !isReady) return 'starts'
  return isOver ? `has ended: ${endOf(process)}` : process.status === 'starting' ? 'restarts' : 'runs'
}

function jobStateOf({
  state,
  exitCode,
  signal,
  reason,
}: {
  state: string
  exitCode: number | null
  signal: string | null
  reason: string | null
}): string {
  if (state === 'running') return 'running'
  if (state === 'crashed') return `crashed${reason === null ? '' : `: ${reason}`}`
  const end = signal === null ? `exit ${exitCode}` : signal
  return reason === 'exit' || reason === 'signal' || reason === null ? end : `${reason}, ${end}`
}

function firstLine(command: string): string {
  const [line = ''] = toPlainText(command).split('\n')
  return line.length <= 80 ? line : `${line.slice(0, 80)}...`
}

/** Calls `onProgress` each second, until it is stopped. */
function reportProgress({ style }: Host, run: Run, { onProgress }: ToolContext): () => void {
  if (onProgress === undefined) return () => {}
  let isBusy = false
  const report = async () => {
    if (isBusy || run.isOver) return
    isBusy = true
    try {
      const { lines } = await run.logLines({ fromLine: -1, lines: 1 })
      const message = style.redactor.hide(toPlainText(lines.at(-1)?.text ?? '')).slice(0, PROGRESS_LENGTH)
      onProgress({ seconds: Math.round(run.age / 1000), message })
    } catch {
      // The run has just ended. Progress is not worth an error.
    } finally {
      isBusy = false
    }
  }
  const timer = clock.setInterval(report, PROGRESS_INTERVAL)
  return () => clock.clearInterval(timer)
}
