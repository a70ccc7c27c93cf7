/** Calls of a real session, with a time limit, and the comparison of its state with the model's. */
import { Deviation } from './model.mjs'
import { probeText } from './state.mjs'

/** Maximum time of any step. */
const LIMIT_MS = 15_000

/** The value of a promise, or a Deviation if it takes too long. */
export async function within(promise, what, limit = LIMIT_MS) {
  let timer
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Deviation(`hangs: ${what}`)), limit)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/** Runs a command and returns its result or its error. */
export async function run(subject, command, options = {}) {
  const onStart = ({ pid }) => {
    subject.shell = pid
  }
  const call = subject.session.exec(command, { timeout: 0, onStart, ...options })
  const settled = call.then(
    (result) => ({ result }),
    (error) => ({ error, result: error.result }),
  )
  return within(settled, JSON.stringify(command).slice(0, 400))
}

export function must(condition, complaint) {
  if (!condition) throw new Deviation(complaint)
}

/** A short description of an outcome. */
export function describe({ result, error }) {
  const { exitCode, signal, stdout, stderr, sessionRestarted } = result ?? {}
  const cut = (value) => (typeof value === 'string' ? value.slice(0, 300) : value)
  return JSON.stringify({
    error: error && `${error.code ?? error.name}: ${error.message}`,
    exitCode,
    signal,
    sessionRestarted,
    stdout: cut(stdout),
    stderr: cut(stderr),
  })
}

/** Runs the probe and compares its outcome. */
export async function probe(subject) {
  observe(subject, await run(subject, probeText()))
}

/** Compares the outcome of a probe. */
export function observe({ model }, found) {
  must(found.error === undefined, `the probe fails: ${describe(found)}`)
  must(found.result.stdout !== '', `the probe prints nothing: ${describe(found)}`)
  model.observe(found.result.stdout)
  model.become(model.possible.map((state) => ({ ...state, status: 0 })))
}

/** The options of a command with a scope. */
export function scoped({ scope }, root) {
  return scope === undefined
    ? {}
    : { env: scope.env, ...(scope.cwd === undefined ? {} : { cwd: root + scope.cwd }) }
}
