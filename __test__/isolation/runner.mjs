/**
 * Makes break-out attempts, each in a sandbox of its own, and prints what became of them as JSON. Runs as the user and on
 * the runtime of a test: `runner.mjs MODULE`, with the task as JSON on standard input: { attempts, isolation, by, hasMounts, user }.
 * They run in sessions, or, with `by: 'job'`, as durable jobs. With `user`, root runs them as that user, who owns everything here.
 */
import { execFileSync, spawn } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'

const { Sandbox } = await import(process.argv[2])
const { attempts, isolation, by, hasMounts, user } = JSON.parse(fs.readFileSync(0, 'utf8'))
const owner = user === undefined ? {} : { uid: user, gid: user }

// Not below /tmp, where a session may have a directory of its own and see nothing of this.
const base = fs.mkdtempSync('/var/tmp/nacre-breakout-')
const at = (...names) => path.join(base, ...names)
const abstract = `nacre-breakout-${process.pid}`

if (user !== undefined) fs.chownSync(base, user, user)
const servers = spawn('perl', [path.join(import.meta.dirname, 'servers.pl'), at('socket'), abstract], {
  stdio: ['pipe', 'pipe', 'inherit'],
  ...owner,
})
const [PORT, PORT6, UDP, SHM] = (await new Promise((resolve) => servers.stdout.once('data', resolve)))
  .toString()
  .trim()
  .split(' ')

fs.mkdirSync(at('victim'))
fs.writeFileSync(at('victim', 'secret'), 'ESCAPED')
const secret = fs.openSync(at('victim', 'secret'), 'r')
const stdio = ['ignore', 'ignore', 'ignore', ...Array(6).fill('ignore'), secret]
const victim = spawn('sleep', ['600'], {
  cwd: at('victim'),
  env: { ...process.env, VICTIM_SECRET: 'ESCAPED' },
  stdio,
  ...owner,
})

/** Like the directory for temporary files of another session. */
const TEMPORARY = path.join(os.tmpdir(), `nacre-breakout-${process.pid}-tmp`)

/** A fresh place with everything that an attempt is about. */
function layOut() {
  for (const name of ['work', 'outside', 'hidden', 'home', 'covered'])
    fs.rmSync(at(name), { recursive: true, force: true })
  for (const name of ['work/.git/hooks', 'outside/empty', 'work/place', 'hidden', 'home', 'covered']) {
    fs.mkdirSync(at(name), { recursive: true })
  }
  fs.linkSync(at('socket'), at('work/host.socket'))
  fs.writeFileSync(at('work/.git/hooks/hook'), 'hook')
  fs.writeFileSync(at('work/.git/config'), 'config')
  fs.writeFileSync(at('outside/canary'), 'canary')
  fs.writeFileSync(at('hidden/key'), 'ESCAPED')
  fs.writeFileSync(at('covered/key'), 'ESCAPED')
  fs.writeFileSync(at('work/place/key'), 'own')
  for (const directory of [at('jobs/other'), TEMPORARY]) {
    fs.mkdirSync(directory, { recursive: true, mode: 0o700 })
    fs.writeFileSync(path.join(directory, 'file'), 'ESCAPED')
  }
  // The directory of jobs belongs to root.
  const owned = ['work', 'outside', 'hidden', 'home', 'covered', 'victim'].map((name) => at(name))
  if (user !== undefined) execFileSync('chown', ['-R', `${user}:${user}`, ...owned, TEMPORARY])
}

/** All that must not change. */
const snapshot = () =>
  JSON.stringify(
    ['outside', 'hidden', 'home', 'covered', 'work/.git'].map(
      (name) =>
        fs.statSync(at(name), { throwIfNoEntry: false })?.isDirectory() &&
        fs
          .readdirSync(at(name), { recursive: true, withFileTypes: true })
          .map((entry) => path.join(entry.parentPath, entry.name))
          .sort()
          .map((file) => {
            const { mode, mtimeMs, nlink } = fs.lstatSync(file)
            const content = fs.lstatSync(file).isFile() ? fs.readFileSync(file, 'utf8') : ''
            return [file, mode, mtimeMs, content, content && nlink]
          }),
    ),
  )

const env = {
  OUT: at('outside'),
  SECRET: at('hidden/key'),
  COVERED: at('covered'),
  PLACE: at('work/place'),
  FAKE_HOME: at('home'),
  VICTIM: String(victim.pid),
  HOST: String(process.pid),
  SELF: String(process.pid),
  JOBS: at('jobs'),
  TEMPORARY,
  SOCKET: at('socket'),
  ABSTRACT: abstract,
  PORT,
  PORT6,
  UDP,
  SHM,
}

/** Runs a command in the session, and returns all of its output. */
async function inSession(sandbox, command) {
  const { all } = await sandbox.exec(command, { timeout: 20_000, forceKillAfterDelay: 100 })
  // The session is what it was.
  const after = await sandbox.exec('echo alive')
  return after.stdout === 'alive\n' ? all : `${all}\n(the session does not answer)`
}

/** Runs a command as a durable job, and returns all of its output. */
async function asJob({ jobs }, command) {
  const job = await jobs.start({ command, timeout: 20_000 })
  await jobs.wait(job)
  const { raw } = await jobs.read(job)
  await jobs.cancel(job)
  await jobs.remove(job)
  return raw
}

const results = {}
for (const { name, command } of attempts) {
  layOut()
  const before = snapshot()
  const rules = isolation && {
    ...isolation,
    filesystem: {
      ...isolation.filesystem,
      hide: [...(isolation.filesystem.hide ?? []), at('hidden')],
      mounts: hasMounts ? [{ source: at('work/place'), target: at('covered') }] : [],
    },
  }
  const sandbox = new Sandbox({
    cwd: at('work'),
    env,
    isolation: rules,
    jobsRoot: at('jobs'),
    ...(user !== undefined && { user: owner }),
  })
  try {
    const output = await (by === 'job' ? asJob : inSession)(sandbox, command)
    const changed = snapshot() !== before
    results[name] = { escaped: changed || output.includes('ESCAPED'), output: output.slice(0, 500), changed }
  } catch (error) {
    results[name] = { escaped: false, failed: String(error.message), output: '' }
  } finally {
    await sandbox.destroy()
  }
}
victim.kill('SIGKILL')
servers.kill('SIGKILL')
execFileSync('ipcrm', ['-m', SHM], owner)
fs.rmSync(base, { recursive: true, force: true })
fs.rmSync(TEMPORARY, { recursive: true, force: true })
process.stdout.write(JSON.stringify(results))
