/** Operations that kill, stop or cancel, at random moments. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, must, observe, probe, run, scoped, within } from './call.mjs'
import { STOPS_ITSELF } from './endings.mjs'
import { commandText, evaluate, prefixes, RENEWAL_MS, unique } from './model.mjs'
import { probeText } from './state.mjs'
import { family, isAlive, signal } from './world.mjs'

/** Waits without a timer, which would be too coarse. */
export function spin(microseconds) {
  const end = performance.now() + microseconds / 1000
  while (performance.now() < end);
}

/** Waits this many microseconds: precisely for short waits, with the event loop running for long ones. */
async function delay(microseconds) {
  if (microseconds < 1500) spin(microseconds)
  else await sleep(microseconds / 1000)
}

/** Errors that a call may return if the supervisor is killed. */
const LOST = ['ENGINE_ERROR']

/** Finds the state after a kill: immediately, and again once the engine must have noticed. */
async function recover(subject, victim) {
  subject.disturbed = true
  await patientProbe(subject)
  if (victim !== undefined) {
    while (isAlive(victim)) await sleep(5)
    await sleep(30)
    await patientProbe(subject)
  }
  subject.disturbed = false
}

/** The first probe may be sent to a shell or supervisor that is about to die. */
async function patientProbe(subject) {
  for (let attempt = 1; ; attempt++) {
    const found = await run(subject, probeText())
    const lost = LOST.includes(found.error?.code) || found.result?.signal === 'SIGKILL'
    if (!lost || attempt === 3) return observe(subject, found)
    await sleep(50)
  }
}

/**
 * The possible states after the shell is killed while idle: after a rest exactly the last state, earlier also the previous
 * one.
 */
function afterIdle(model, pause) {
  return pause >= RENEWAL_MS ? model.possible : unique([...model.possible, ...model.previous])
}

/** Kills a process of the session, idle or while a command runs, and finds the state. */
async function killWhile(subject, { pause, during, after }, target, tolerated) {
  const { model, root } = subject
  await sleep(pause)
  if (subject.shell === undefined) await probe(subject)
  const victim = { ...family(subject.shell), shell: subject.shell }[target]
  if (during === undefined) {
    await delay(after)
    signal(victim, 'SIGKILL')
    model.lose(afterIdle(model, pause))
    return recover(subject, victim)
  }
  const idle = afterIdle(model, pause)
  const running = run(subject, `${commandText(during, root)}\nsleep 0.002`, scoped(during, root))
  await delay(after)
  signal(victim, 'SIGKILL')
  const found = await running
  const code = found.error?.code
  must(code === undefined || tolerated.includes(code), describe(found))
  // A command that the shell had not read runs in the next one, which without a standby has an earlier state.
  const before = unique([...idle, ...model.possible, ...model.losable()])
  const outcomes = before.map((state) => evaluate(state, during, root).state)
  model.everything = unique([...outcomes, ...model.everything])
  // It completed in this shell or the next, or died with the shell.
  model.lose([...idle, ...outcomes])
  return recover(subject, victim)
}

export const kills = {
  async fatal(subject, operation) {
    const { model, root } = subject
    const found = await run(subject, commandText(operation, root), scoped(operation, root))
    must(found.error === undefined, describe(found))
    const { exitCode, signal: name } = found.result
    const { code } = operation.fatal
    must(
      exitCode === code || (code > 128 && name !== null),
      `${describe(found)} after ${operation.fatal.text}`,
    )
    must(found.result.sessionRestarted, `not restarted by ${operation.fatal.text}`)
    model.lose()
    subject.disturbed = false
  },

  async timeout(subject, operation) {
    const { model, root } = subject
    const { timeout, grace: forceKillAfterDelay } = operation
    const options = { ...scoped(operation, root), timeout, forceKillAfterDelay }
    const found = await run(subject, commandText(operation, root), options)
    if (operation.endless === STOPS_ITSELF && found.result?.exitCode === 0 && found.error === undefined)
      return model.become(model.possible.map((state) => evaluate(state, operation, root).state))
    must(found.error?.code === 'COMMAND_TIMEOUT', `${describe(found)} after a timeout`)
    // On a busy machine, the time is up before the command has done all that comes before its end.
    const states = model.possible.flatMap((state) => prefixes(state, operation, root))
    const complete = model.possible.map((state) => evaluate(state, operation, root).state)
    const restarted = found.result?.sessionRestarted
    const unknown = [...complete, ...states].map((state) => ({ ...state, status: undefined }))
    model.become(restarted ? [...states, ...model.losable()] : unique(unknown))
    model.forget()
  },

  async abort(subject, operation) {
    const { model, root } = subject
    const controller = new AbortController()
    const options = {
      ...scoped(operation, root),
      signal: controller.signal,
      forceKillAfterDelay: operation.grace,
    }
    const running = run(subject, commandText({ ...operation, after: [] }, root), options)
    await delay(operation.after)
    controller.abort()
    const found = await running
    const done = model.possible.map((state) => evaluate(state, { ...operation, after: [] }, root).state)
    if (found.error === undefined) {
      must(operation.endless === undefined && found.result.exitCode === 0, describe(found))
      model.become(done)
      return
    }
    must(found.error.name === 'AbortError', describe(found))
    const cut = model.possible.flatMap((state) => prefixes(state, operation, root))
    model.become([...cut, ...model.losable()])
    model.forget()
  },

  killShell: (subject, operation) => killWhile(subject, operation, 'shell', []),
  killSupervisor: (subject, operation) => killWhile(subject, operation, 'supervisor', LOST),

  async killStandby(subject, { pause }) {
    await sleep(pause)
    if (subject.shell === undefined) return
    if (signal(family(subject.shell).standby, 'SIGKILL')) subject.model.standbyDied()
  },

  async stop(subject, { pause, target, during }) {
    await sleep(pause)
    if (subject.shell === undefined) await probe(subject)
    const victim = { ...family(subject.shell), shell: subject.shell }[target]
    if (during === undefined) {
      signal(victim, 'SIGSTOP')
      return recover(subject)
    }
    const running = run(subject, during, { timeout: 100, forceKillAfterDelay: 200 })
    await sleep(20)
    signal(victim, 'SIGSTOP')
    const found = await running
    must(found.error?.code === 'COMMAND_TIMEOUT', `${describe(found)} with the ${target} stopped`)
    subject.model.forget()
    return recover(subject)
  },

  async recreate(subject, { during, after, awaited }) {
    const running = during && run(subject, during)
    if (during !== undefined) await delay(after)
    const { id } = subject.session
    const deleting = within(subject.sandbox.deleteSession(id), 'deleteSession')
    if (awaited) await deleting
    const found = await running
    if (during !== undefined) must(found.error?.code === 'SESSION_DESTROYED', describe(found))
    await deleting
    await within(subject.open(), 'createSession')
  },
}
