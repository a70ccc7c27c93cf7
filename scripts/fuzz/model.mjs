/** The possible states of a session: usually one, several if a kill may have come before or after a change. */

import { ending as endingOf } from './bash.mjs'
import { EFFECTS } from './endings.mjs'
import { apply, text } from './fragments.mjs'
import { copy, expected, initial, NAMES, normalize, strictness } from './state.mjs'

/** A difference between the engine and the model. */
export class Deviation extends Error {
  name = 'Deviation'
}

const MOST = 400

/** Milliseconds after which an idle shell has forked its standby, also on a busy machine. */
export const RENEWAL_MS = 300

export class Model {
  constructor(directory) {
    this.directory = directory
    this.reset()
  }

  /** A new session. */
  reset() {
    this.possible = [initial(this.directory)]
    /** The possible states before the last command. */
    this.previous = this.possible
    /** Every state so far. */
    this.everything = this.possible
    /** Whether the standby has been killed and may not have been replaced: a dying shell may restore any earlier state. */
    this.unguarded = false
    /** When the first command after the death of the standby ended, which makes the shell fork another one. */
    this.renewal = undefined
  }

  /** Records that the standby has been killed. */
  standbyDied() {
    this.unguarded = true
    this.renewal = undefined
  }

  /** Records that a command ended, with the states that it may have left. */
  become(states) {
    this.previous = this.possible
    this.possible = unique(states)
    this.everything = unique([...this.possible, ...this.everything]).slice(0, MOST)
    this.renewal ??= performance.now()
    if (performance.now() - this.renewal >= RENEWAL_MS) this.unguarded = false
  }

  /** Records that a command was cancelled, with the states of its end. It may never have begun, so it may not be the last one. */
  cancelled(states) {
    const before = this.previous
    this.become([...states, ...this.possible])
    this.previous = unique([...before, ...this.previous])
    this.forget()
  }

  /** Records that the shell may have died: the last command may have left nothing; without a standby, more may be lost. */
  lose(states = this.possible) {
    this.possible = unique(this.unguarded ? [...states, ...this.everything] : states).map(forgetStatus)
  }

  /** The states that a shell killed in a command may restore: any earlier state, if it had no standby. */
  losable() {
    return this.unguarded ? this.everything : []
  }

  /** Makes `$?` unknown. */
  forget() {
    this.possible = unique(this.possible.map(forgetStatus))
  }

  /** Keeps the states that print this. */
  observe(output, options) {
    const fits = this.possible.filter(
      (state) => normalize(output, state.status !== undefined) === expected(state, options),
    )
    if (fits.length > 0) {
      this.possible = fits
      return
    }
    throw new Deviation(
      `the state is none of the ${this.possible.length} that it may be: ${this.compare(output, options)}`,
    )
  }

  /** The lines that differ from the likeliest state. */
  compare(output, options) {
    const differences = this.possible.map((state) => {
      const wanted = expected(state, options).split('\n')
      const found = normalize(output, state.status !== undefined).split('\n')
      const lines = []
      for (let at = 0; at < Math.max(wanted.length, found.length); at++) {
        if (wanted[at] === found[at]) continue
        lines.push(`  found    ${JSON.stringify(found[at])}`, `  expected ${JSON.stringify(wanted[at])}`)
      }
      return lines
    })
    const [nearest] = differences.sort((one, other) => one.length - other.length)
    return `\n${nearest
      .slice(0, 12)
      .join('\n')
      .replaceAll(/v{100,}/g, 'vv...vv')}`
  }
}

const forgetStatus = (state) => ({ ...state, status: undefined })

export function unique(states) {
  const seen = new Map(states.map((state) => [JSON.stringify(state), state]))
  return [...seen.values()]
}

/** The text of a command. */
export function commandText({ before, join, after = [], ending, endless, fatal, signal }, root) {
  const pieces = before.map((one) => text(one, root))
  const last = ending ?? endless ?? fatal?.text ?? (signal && `\\builtin kill -${signal} $$`)
  const all = [...(pieces.length > 0 ? [pieces.join(join)] : []), ...(last === undefined ? [] : [last])]
  if (Array.isArray(after)) all.push(...after.map((one) => text(one, root)))
  return all.join('\n')
}

/** The state and code of a command that completes. */
export function evaluate(state, { before, after, ending, scope }, root) {
  const outer = state
  let now = enter(copy(state), scope, root)
  for (const one of before) now = apply(now, one, root)
  if (ending !== undefined) {
    const { continues, code } = endingOf(ending, strictness(now))
    if (EFFECTS[ending]) now = apply(now, EFFECTS[ending], root)
    now.status = code
    if (continues) for (const one of after ?? []) now = apply(now, one, root)
  }
  return { state: leave(now, outer, scope), code: now.status }
}

/** The states in which a command may leave its session if it is interrupted anywhere. */
export function prefixes(state, { before, scope }, root) {
  const states = [state]
  let now = enter(copy(state), scope, root)
  states.push(leave(now, state, scope))
  for (const one of before) {
    const next = apply(now, one, root)
    // It has two steps, and the first exchanges the directories of the second.
    if (one.kind === 'up') states.push(leave({ ...next, cwd: next.oldCwd, oldCwd: next.cwd }, state, scope))
    now = next
    states.push(leave(now, state, scope))
  }
  return states.map(forgetStatus)
}

/** Applies a command's own directory and variables. */
function enter(state, scope, root) {
  if (scope?.cwd !== undefined) [state.oldCwd, state.cwd] = [state.cwd, root + scope.cwd]
  for (const [name, value] of Object.entries(scope?.env ?? {})) setExported(state, name, value)
  return state
}

/** Restores what the scope had changed. */
function leave(now, outer, scope) {
  if (scope === undefined) return now
  const state = copy(now)
  if (scope.cwd !== undefined) [state.oldCwd, state.cwd] = [outer.oldCwd, outer.cwd]
  for (const name of Object.keys(scope.env)) {
    state.exported = state.exported.filter((other) => other !== name)
    delete state.variables[name]
    if (Object.hasOwn(outer.variables, name)) state.variables[name] = outer.variables[name]
    if (outer.exported.includes(name)) state.exported = [...state.exported, name]
  }
  return state
}

/** Sets an exported variable, or unsets it. */
export function setExported(state, name, value) {
  state.exported = state.exported.filter((other) => other !== name)
  delete state.variables[name]
  if (value === undefined) return
  state.variables[name] = value
  state.exported = [...state.exported, name]
}

/** The first output line of a command that shows its scope, and the text that prints it. */
export const SHOW = `\\builtin printf '%s|' "$PWD" ${NAMES.map((name) => `"\${${name}-unset}"`).join(' ')}; `

export function shown(state, scope, root) {
  const inside = enter(copy(state), scope, root)
  return `${[inside.cwd, ...NAMES.map((name) => inside.variables[name] ?? 'unset')].join('|')}|`
}
