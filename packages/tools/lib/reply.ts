/** Replies: a header line, output, and for a running command the next step. */

import type { Denial, HandBack, KilledBy } from 'nacre'
import type { redaction } from 'nacre/internal'
import { toPlainText } from './plain.js'
import type { ToolData, ToolReply } from './public.js'
import { KILLS, type Run, type RunEnd, wanted } from './run.js'
import type { CountTokens, Excerpt, Shortened } from './shorten.js'
import { formatCount, shorten } from './shorten.js'

/** Tokens for the field of the header that says what is left out. */
const OMISSION_TOKENS = 30
const LEAST_BODY_TOKENS = 20
const ERROR_TOKENS = 1000
const LONGEST_FIELD = 200
const LONGEST_REASON = 100

/** How replies are written. */
export interface Style {
  countTokens: CountTokens
  redactor: redaction.Redactor
  writeHint: string | undefined
  askHint: string | undefined
}

interface Parts {
  /** The fields of the header. */
  header: (string | undefined)[]
  body?: Shortened
  /** The lines after the output. */
  next?: string[]
  data?: ToolData
}

export function reply({ redactor }: Style, { header, body, next = [], data = {} }: Parts): ToolReply {
  const fields = header.filter((field) => field !== undefined).map(oneLine)
  const text = withoutEmptyEnd(body?.text ?? '')
  const notes = next.map((line) => `[${line}]`)
  const lines = [`[${fields.join(' | ')}]`, ...(text === '' ? [] : [text]), ...notes]
  const left = body === undefined || body.missing === 0 ? {} : { left: body.missing }
  return { text: redactor.hide(lines.join('\n')), isError: false, data: { ...data, ...left } }
}

/** An error may end with the last lines of a log. */
export function failure(style: Style, code: string, message: string): ToolReply {
  const { text } = bodyOf(style, { head: message, tail: '', missing: 0 }, ERROR_TOKENS, {
    start: false,
    end: false,
  })
  return { text: `[error] ${code}: ${text}`, isError: true, data: { code } }
}

/** Output for a model: plain, without secrets, and within the budget. `cuts`: whether the text begins or ends within output. */
export function bodyOf(
  { countTokens, redactor }: Style,
  { head, tail, missing }: Excerpt,
  tokens: number,
  cuts: { start: boolean; end: boolean },
): Shortened {
  const hasGap = missing > 0
  const excerpt = {
    head: redactor.hide(toPlainText(head), { start: cuts.start, end: hasGap || cuts.end }),
    tail: redactor.hide(toPlainText(tail), { start: true, end: cuts.end }),
    missing,
  }
  return shorten(excerpt, tokens, countTokens)
}

/**
 * The reply about a run: how it is, and what it has printed since the last reply. `asked`: hosts that its session waits to be
 * allowed.
 */
export async function replyOf(
  style: Style,
  run: Run,
  tokens: number,
  hadOutput: boolean,
  asked: readonly string[],
): Promise<ToolReply> {
  const { end } = run
  const handBack = await run.handBack()
  const excerpt = await run.take()
  // It may be a prompt of a program that waits for a connection besides.
  if (!run.isOver && run.waiting === undefined && run.hasInput && !run.isAtLineStart) await run.look()
  const screen = run.isFullScreen ? await run.screen() : undefined
  const header =
    end === undefined ? [stateOf(run), formatTime(run.age), ...askFields(asked)] : endFields(run, end)
  const next = end === undefined ? nextSteps(run) : []
  if (asked.length > 0 && style.askHint !== undefined) next.push(style.askHint)
  const frame = style.countTokens([...header, ...next].join(' | ')) + OMISSION_TOKENS
  const room = Math.max(LEAST_BODY_TOKENS, tokens - frame)
  const shown = screen === undefined ? excerpt : { head: screen.text, tail: '', missing: 0 }
  const body = bodyOf(style, shown, room, { start: hadOutput, end: end === undefined })
  const omission =
    body.missing > 0
      ? `${formatCount(body.missing)} characters left out; all: output {"id":"${run.id}"}`
      : undefined
  const notes = [...handBackNotes(handBack), ...(end === undefined ? [] : endNotes(run, end))]
  const isRefused = end?.refused.some(({ kind }) => kind === 'write')
  if (isRefused && style.writeHint !== undefined) notes.push(style.writeHint)
  return reply(style, { header: [...header, omission, ...notes], body, next, data: dataOf(run) })
}

function handBackNotes(handBack: HandBack | undefined): string[] {
  return handBack === undefined ? [] : [`handed back by ${quoted(handBack.owner)}: ${quoted(handBack.note)}`]
}

function stateOf({ id, isQueued, sessionName, waiting }: Run): string {
  if (isQueued) return `${id} waits until its session ${sessionName} is free`
  if (waiting === undefined) return `${id} still runs`
  const { how, program, state, sure } = waiting
  if (state === 'listening' || !sure) return `${id} may wait for input (${program})`
  return how === 'secret'
    ? `${id} waits for a password (${program})`
    : `${id} waits for input (${program}, ${how})`
}

function askFields(asked: readonly string[]): string[] {
  return asked.length === 0 ? [] : [`waits to be allowed to connect to ${asked.slice(0, 5).join(', ')}`]
}

function nextSteps({ id, hasInput, waiting }: Run): string[] {
  if (waiting?.how === 'secret') return ['do not ask the user for the password in the chat']
  // Others may go on by themselves.
  const isStuck = waiting?.state === 'reading' && waiting.sure && !waiting.timed
  const tools = [...(isStuck ? [] : ['wait']), ...(hasInput ? ['write'] : []), 'output']
  return [`use ${tools.join(', ')} or kill with id "${id}"`]
}

function endFields(run: Run, end: RunEnd): string[] {
  const { cpuMs = 0, cwd } = end
  const cost = cpuMs < NOTABLE_CPU_MS ? [] : [`processor time ${formatTime(cpuMs)}`]
  return [endOf(end), formatTime(run.age), ...cost, ...(cwd === undefined ? [] : [`cwd ${cwd}`])]
}

/** Processor time from which on a reply names it. */
const NOTABLE_CPU_MS = 10_000

/** How it ended, like `exit 0`. */
export function endOf(end: Pick<RunEnd, 'exitCode' | 'signal' | 'reason' | 'killedBy'>): string {
  const { exitCode, signal, reason, killedBy } = end
  const by = signal === 'SIGKILL' ? ' by SIGKILL' : ''
  if (reason === 'timeout') return `timed out, killed${by}`
  if (reason === 'killed') return `killed${by}${killerOf(killedBy)}`
  if (reason === 'oom') return 'killed, because it reached its memory limit'
  if (reason === 'host-lost') return 'ended with the program that had the sandbox'
  if (reason === null) return 'ended, lost by nacre'
  return signal === null ? `exit ${exitCode}` : `ended by ${signal}`
}

/** What has killed it, unless the model did. */
function killerOf(killedBy: KilledBy | null): string {
  const { by, reason } = killedBy ?? {}
  if (by === 'session') return ', its session has ended'
  if (by === 'abort' || reason === KILLS.cancel) return ', its call was cancelled'
  if (by !== 'caller' || reason === KILLS.tool || reason === KILLS.close) return ''
  return `, by another caller${reason ? `: ${quoted(reason)}` : ''}`
}

/** Text from another caller or a program, which must not look like a field of the header or the end of it. */
function quoted(words: string): string {
  const text = toPlainText(words).replace(/[\s|[\]"]+/g, ' ')
  return `"${text.length <= LONGEST_REASON ? text : `${text.slice(0, LONGEST_REASON)}...`}"`
}

function endNotes({ wasDetached }: Run, { wasRestarted, refused }: RunEnd): string[] {
  const notes: string[] = []
  if (wasDetached) notes.push('its changes of directory and variables are lost')
  if (wasRestarted) notes.push('the shell was restarted: state is that after the last finished command')
  notes.push(...[...new Set(refused.map(refusal))].slice(0, 5))
  return notes
}

/** Paths are the programs' own words. */
function refusal(denial: Denial): string {
  const { kind, target, program } = denial
  const by = program === undefined ? '' : ` by ${quoted(program.slice(program.lastIndexOf('/') + 1))}`
  return `${kind} refused${by}: ${kind === 'network' ? wanted(denial) : quoted(target)}`
}

function dataOf(run: Run): ToolData {
  const { id, end, bytes, waiting } = run
  if (end === undefined) {
    const status =
      waiting === undefined
        ? 'running'
        : waiting.state === 'reading' && !waiting.sure
          ? 'unknown'
          : waiting.state
    return { id, status, bytes }
  }
  const { exitCode, signal, reason, cwd } = end
  return { id, status: 'ended', exitCode, signal, reason, bytes, ...(cwd === undefined ? {} : { cwd }) }
}

/** Like `3 ms`, `1.2 s` and `600 s`. */
export function formatTime(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.round(milliseconds)} ms`
  const seconds = milliseconds / 1000
  return `${seconds.toFixed(seconds < 100 ? 1 : 0)} s`
}

/** An expression would take a time that grows with the square of many newlines. */
function withoutEmptyEnd(text: string): string {
  let end = text.length
  while (text[end - 1] === '\n') end--
  return text.slice(0, end)
}

/** A field of the header must not look like two, or have lines. */
function oneLine(field: string): string {
  const line = toPlainText(field).replace(/[\n\t]/g, ' ')
  return line.length <= LONGEST_FIELD ? line : `${line.slice(0, LONGEST_FIELD)}...`
}
