/** Shortens a list of operations with a deviation to a shorter list with the same deviation, and then the lists in them. */
import { commandText } from './model.mjs'
import { runRound } from './round.mjs'

const MOST_MS = 40_000
const ATTEMPTS = 3

/** Removes operations as long as the deviation remains. Timing can hide it, so each list is tried several times. */
export async function shorten(round, deviation) {
  const deadline = performance.now() + MOST_MS
  let operations = relevant(round, deviation)
  let found = deviation
  const fails = async (fewer) => {
    for (let attempt = 0; attempt < ATTEMPTS && performance.now() < deadline; attempt++) {
      const again = await runRound({ ...round, operations: fewer })
      if (again !== undefined && kindOf(again) === kindOf(deviation)) return again
    }
    return undefined
  }
  /** Shortens one list; `within` makes the operations that contain another one in its place. */
  const shortenList = async (list, within) => {
    for (let size = Math.ceil(list.length / 2); size >= 1 && performance.now() < deadline; ) {
      let removed = false
      for (let at = 0; at < list.length && performance.now() < deadline; ) {
        const shorter = list.toSpliced(at, size)
        const again = await fails(within(shorter))
        if (again === undefined) at += size
        else {
          list = shorter
          operations = within(shorter)
          found = again
          removed = true
        }
      }
      if (size === 1 && !removed) break
      size = size === 1 ? 1 : Math.ceil(size / 2)
    }
  }
  const reproduced = (await fails(operations)) !== undefined
  if (reproduced) {
    await shortenList(operations, (fewer) => fewer)
    for (const [at, { kind, furnish, steps }] of operations.entries()) {
      if (kind !== 'workspace') continue
      const change = (parts) => operations.with(at, { ...operations[at], ...parts })
      await shortenList(steps, (fewer) => change({ steps: fewer }))
      await shortenList(furnish, (fewer) => change({ furnish: fewer }))
      for (const [number, { script }] of operations[at].steps.entries())
        await shortenList(script, (fewer) => {
          const { steps } = operations[at]
          return change({ steps: steps.with(number, { ...steps[number], script: fewer }) })
        })
    }
  }
  return { round: { ...round, operations }, deviation: found, reproduced }
}

/** The operations of the deviating session, up to the deviation; all operations if the session is unknown. */
function relevant({ operations }, { at, operation }) {
  if (operation === undefined) return operations
  return operations
    .slice(0, at < 0 ? undefined : at + 1)
    .filter(({ session }) => session === operation.session)
}

/** Deviations with the same first words count as the same. */
function kindOf({ message }) {
  return message.replace(/\d+/g, 'N').slice(0, 24)
}

/** The operations as text. */
export function show({ round, deviation, reproduced }) {
  const lines = round.operations.map((operation, at) => {
    const { session, kind, ...rest } = operation
    const text = Array.isArray(rest.before) ? ` ${JSON.stringify(commandText(clean(rest), 'ROOT'))}` : ''
    const during = rest.during?.before ? ` during ${JSON.stringify(commandText(rest.during, 'ROOT'))}` : ''
    const { before: _, join: __, ending: ___, endless: ____, fatal: _____, ...others } = rest
    if (others.during?.before) others.during = undefined
    return `  ${at + 1}. session ${session}: ${kind}${text}${during} ${JSON.stringify(others, (_, value) => (value === undefined ? 'UNSET' : value))}`
  })
  const head = reproduced
    ? `shortest list of operations (${round.mode}):`
    : 'did not happen again; operations of its session:'
  const text = [head, ...lines.slice(-40), `then: ${deviation.message}`].join('\n')
  return text.replaceAll(/v{100,}/g, 'vv...vv')
}

function clean(operation) {
  return Array.isArray(operation.after) ? operation : { ...operation, after: [] }
}
