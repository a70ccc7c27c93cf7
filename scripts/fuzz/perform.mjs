/** Carries out operations on a real session and compares the results with the model. */
import { setTimeout as sleep } from 'node:timers/promises'
import { plainBash } from './bash.mjs'
import { describe, must, probe, run, scoped, within } from './call.mjs'
import { kills } from './kills.mjs'
import { commandText, Deviation, evaluate, SHOW, setExported, shown, unique } from './model.mjs'
import { probeText } from './state.mjs'
import { workspace } from './workspace.mjs'

/** Carries out one operation. Throws a Deviation. */
export async function perform(subject, operation) {
  const handler = performers[operation.kind] ?? kills[operation.kind]
  await handler(subject, operation)
}

/** Runs a command without interference, and compares its code. */
async function undisturbed(subject, operation) {
  const { model, root } = subject
  const show = operation.scope !== undefined
  const text = (show ? SHOW : '') + commandText(operation, root)
  const found = await run(subject, text, scoped(operation, root))
  must(found.error === undefined, `${describe(found)} for ${JSON.stringify(text)}`)
  const outcomes = model.possible.map((state) => ({
    ...evaluate(state, operation, root),
    stdout: show ? shown(state, operation.scope, root) : '',
  }))
  const fits = outcomes.filter(
    ({ code, stdout }) => code === found.result.exitCode && stdout === found.result.stdout,
  )
  const wanted = JSON.stringify(outcomes.slice(0, 3).map(({ code, stdout }) => ({ code, stdout })))
  must(fits.length > 0, `${describe(found)} for ${JSON.stringify(text)}, expected ${wanted}`)
  must(
    !found.result.sessionRestarted || subject.disturbed,
    `the shell was restarted by ${JSON.stringify(text)}`,
  )
  subject.disturbed = false
  model.become(fits.map(({ state }) => state))
}

/** Starts a process; undefined if the standby that it would be forked from has just been killed. */
async function startProcess({ session, model }, command, options) {
  try {
    return await within(session.startProcess(command, options), 'startProcess')
  } catch (error) {
    if (model.unguarded && error.code === 'SPAWN_FAILED') return undefined
    throw error instanceof Deviation ? error : new Deviation(`startProcess: ${error.code} ${error.message}`)
  }
}

const performers = {
  probe,
  workspace,
  command: undisturbed,
  end: undisturbed,

  async signal(subject, operation) {
    const { model, root } = subject
    const found = await run(subject, commandText(operation, root), scoped(operation, root))
    must(found.error === undefined, describe(found))
    const { exitCode, signal } = found.result
    const number = { TERM: 143, HUP: 129 }[operation.signal]
    must(
      exitCode === number || signal === `SIG${operation.signal}`,
      `${describe(found)} after ${operation.signal}`,
    )
    model.become(model.possible.map((state) => evaluate(state, operation, root).state))
    model.forget()
  },

  async setEnv({ session, model }, { env }) {
    await within(session.setEnvVars(env), 'setEnvVars')
    const change = (state) => {
      const after = structuredClone(state)
      for (const [name, value] of Object.entries(env)) setExported(after, name, value)
      return after
    }
    model.become(model.possible.map(change))
  },

  async words(subject, { words }) {
    const found = await run(subject, ['printf', '%s|', ...words])
    must(found.result?.stdout === `${(words.length > 0 ? words : ['']).join('|')}|`, describe(found))
    subject.model.become(subject.model.possible.map((state) => ({ ...state, status: 0 })))
  },

  async refused(subject, { why }) {
    const [command, options, code] = {
      cwd: ['x=never', { cwd: '/proc/nonexistent' }, 'CWD_NOT_FOUND'],
      name: ['x=never', { env: { '1x': '' } }, 'INVALID_ENV_NAME'],
      readonly: ['x=never', { env: { x: 'scoped', UID: '1' } }, 'INVALID_ENV_NAME'],
      blank: [' ', {}, 'INVALID_COMMAND'],
    }[why]
    const found = await run(subject, command, options).catch((error) => ({ error }))
    must(found.error?.code === code, `${describe(found)} instead of ${code}`)
  },

  async job(subject, { code, sleep: time }) {
    const started = await run(subject, `( sleep ${time}; exit ${code} ) &`)
    must(started.result?.exitCode === 0, describe(started))
    const collected = await run(subject, 'wait "$!" || \\builtin printf %s "$?"')
    const fits = collected.result?.stdout === (code === 0 ? '' : String(code))
    must(fits || collected.result?.sessionRestarted, `the job's code is ${code}: ${describe(collected)}`)
    subject.model.become(subject.model.possible.map((state) => ({ ...state, status: 0 })))
  },

  async output(subject, { bytes, keep }) {
    const options = keep === undefined ? {} : { maxBuffer: keep }
    const found = await run(subject, `head -c ${bytes} /dev/zero | tr '\\0' x`, options)
    const { stdout = '', truncated, exitCode } = found.result ?? {}
    must(exitCode === 0, describe(found))
    const missing = truncated?.stdout ?? 0
    const marker =
      missing === 0 || stdout === '' ? '' : `\n[${missing.toLocaleString('en-US')} bytes omitted]\n`
    must(stdout.includes(marker), `no line says that ${missing} bytes are missing, ${describe(found)}`)
    const kept = stdout.length - marker.length
    must(kept + missing === bytes, `${kept} of ${bytes} bytes, ${describe(found)}`)
    must(truncated === null || kept >= (keep ?? 0) * 0.9, `only ${kept} bytes are kept`)
    subject.model.become(subject.model.possible.map((state) => ({ ...state, status: 0 })))
  },

  async input(subject, { bytes, reads }) {
    const input = 'line of input\n'.repeat(bytes / 14 + 1).slice(0, bytes)
    const found = await run(subject, reads ? 'cat' : ':', { input })
    must(found.result?.exitCode === 0 && found.result.stdout === (reads ? input : ''), describe(found))
    subject.model.become(subject.model.possible.map((state) => ({ ...state, status: 0 })))
  },

  async close(subject, { text }) {
    const found = await run(subject, text)
    must(found.error === undefined, describe(found))
    subject.model.become(subject.model.possible)
    subject.model.forget()
  },

  async queue(subject, { count, aborted, name }) {
    const controller = new AbortController()
    const calls = Array.from({ length: count }, (_, at) =>
      run(
        subject,
        `${name}=q${at}; \\builtin printf %s "$${name}"`,
        at > 0 && at === aborted ? { signal: controller.signal } : {},
      ),
    )
    controller.abort()
    const found = await Promise.all(calls)
    for (const [at, one] of found.entries()) {
      // An abort comes too late for a quick command.
      const cancelled = at > 0 && at === aborted && one.error?.name === 'AbortError'
      must(
        cancelled || one.result?.stdout === `q${at}`,
        `command ${at} of a queue of ${count}: ${describe(one)}`,
      )
    }
    const { model, root } = subject
    const after = (at) => ({ before: [{ kind: 'set', name, value: `q${at}` }] })
    for (const [at, { error }] of found.entries()) {
      const ran = model.possible.map((state) => evaluate(state, after(at), root).state)
      if (error === undefined) model.become(ran)
      else model.cancelled(ran)
    }
  },

  async stream(subject, { lines, how }) {
    const stream = subject.session.execStream('seq 1 2000')
    const read = async () => {
      let count = 0
      for await (const line of stream.lines()) {
        must(line === String(++count), `line ${count} is ${line}`)
        if (count === lines && how === 'break') return
        if (count === lines && how === 'kill') await stream.kill()
      }
    }
    await within(read(), 'a stream')
    await within(
      stream.result.catch(() => undefined),
      'the result of a stream',
    )
    subject.model.become(unique([...subject.model.possible]))
    subject.model.forget()
  },

  /** In a separate session, since the scripts need an ordinary state. */
  async compare(subject, { script }) {
    const session = await within(subject.sandbox.createSession({ cwd: '/' }), 'createSession')
    try {
      const { stdout, stderr, status } = plainBash(script)
      const options = { encoding: 'buffer', timeout: 10_000 }
      const result = await within(session.exec(script, options), `${JSON.stringify(script)}`).catch(
        (error) => {
          throw new Deviation(`${error.code ?? error.message} for ${JSON.stringify(script)}`)
        },
      )
      const plain = (text) => text.toString('latin1').replace(/ +\d+ (?=Killed|Terminated)/g, ' PID ')
      const found = [plain(result.stdout), plain(result.stderr), result.exitCode]
      const wanted = [stdout, plain(stderr), status]
      for (const [at, name] of ['stdout', 'stderr', 'code'].entries()) {
        const both = [found[at], wanted[at]].map((one) => JSON.stringify(one).slice(0, 400))
        must(
          found[at] === wanted[at],
          `${name} of ${JSON.stringify(script)} is ${both[0]}, in bash ${both[1]}`,
        )
      }
    } finally {
      await within(session[Symbol.asyncDispose](), 'deleting a session')
    }
  },

  async leave(subject, { how }) {
    if (how === 'process' || how === 'service') {
      await startProcess(subject, how === 'process' ? 'sleep 300' : 'while :; do sleep 0.05; done')
      return
    }
    const text = {
      background: 'sleep 300 &',
      setsid: 'setsid sleep 300 &',
      nohup: '( nohup sleep 300 >/dev/null 2>&1 & )',
    }
    const found = await run(subject, text[how])
    must(found.result?.exitCode === 0, describe(found))
    subject.model.become(subject.model.possible.map((state) => ({ ...state, status: 0 })))
  },

  async process(subject, { during, after, terminal, end }) {
    const { model, root } = subject
    const first = during && run(subject, `${commandText(during, root)}\nsleep 0.1`, scoped(during, root))
    if (during !== undefined) await sleep(after / 1000)
    // A trace would be in the same stream as the output.
    const traced = model.possible.some(({ letters }) => letters.includes('x'))
    const options = terminal && !traced ? { pty: { cols: 80, rows: 24 } } : {}
    let over = false
    const ended = first?.then((found) => {
      over = true
      return found
    })
    const child = await startProcess(subject, probeText({ traps: false }), options)
    const beside = during !== undefined && !over
    const before = model.possible
    if (ended !== undefined) {
      const found = await ended
      must(found.error === undefined, describe(found))
      const left = before.map((state) => evaluate(state, during, root).state)
      model.become(left.map((state) => ({ ...state, status: 0 })))
    }
    if (child === undefined) return
    if (child === undefined) return
    if (end === 'kill') await within(child.kill(), 'killing a process')
    const exit = await within(child.waitForExit(), 'the end of a process')
    const { stdout } = await within(child.getLogs(), 'the log of a process')
    if (end === 'kill') return
    must(exit.exitCode === 0, `the process ended with ${JSON.stringify(exit)}: ${stdout.slice(0, 300)}`)
    const now = model.possible
    model.possible = beside || during === undefined ? before : unique([...before, ...now])
    model.possible = model.possible.map((state) => ({ ...state, status: undefined }))
    try {
      model.observe(stdout.replaceAll('\r\n', '\n'), { traps: false })
    } finally {
      model.possible = now
    }
  },
}
