/** Workspaces of a directory with mounts below it, as containers have them for `node_modules`, caches and single files. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { startHost } from '../helpers/host.js'
import { asOrdinaryUser, giveToOrdinaryUser, obstacle } from '../helpers/ordinary-user.js'
import { temporary } from '../helpers/temporary.js'

const canMount = spawnSync('unshare', ['-m', 'mount', '--bind', '/proc/self', '/proc/self']).status === 0

/**
 * Runs a program in a host whose `project` has mounts: a volume at `node_modules` with another one at `node_modules/.cache`, a
 * read-only one at `vendor`, and a file at `.env`. Returns what it prints.
 */
async function withMounts(program: string, user: string[] = []): Promise<{ result: unknown; place: string }> {
  const place = temporary('nacre-submounts-', '/var/tmp')
  const at = (name: string) => path.join(place, name)
  for (const name of ['project/node_modules', 'project/vendor', 'volume/.cache', 'cache', 'read', 'state'])
    mkdirSync(at(name), { recursive: true })
  for (const name of [
    'project/.env',
    'project/file',
    'project/node_modules/beneath',
    'volume/v',
    'cache/c',
    'read/r',
    'env',
  ])
    writeFileSync(at(name), name)
  const names = execFileSync('find', [place], { encoding: 'utf8' }).trim().split('\n')
  if (user.length > 0) names.forEach(giveToOrdinaryUser)
  const mounts = [
    ['volume', 'node_modules'],
    ['cache', 'node_modules/.cache'],
    ['read', 'vendor'],
    ['env', '.env'],
  ].map(([from, to]) => `mount --bind ${at(`${from}`)} ${at(`project/${to}`)}`)
  const script = `${mounts.join(' && ')} && mount -o remount,bind,ro ${at('project/vendor')} && exec "$@"`
  const host = startHost(
    `const options = { cwd: ${JSON.stringify(at('project'))}, stateDir: ${JSON.stringify(at('state'))} }
    ;(async () => { ${program} })().then((found) => print(JSON.stringify(found)), ({ code, message }) => print(JSON.stringify([code, message])))`,
    ['unshare', '-m', 'sh', '-c', script, 'sh', ...user],
  )
  expect([await host.ended(), host.output()]).toEqual([0, expect.stringMatching(/^[[{"]/)])
  return { result: JSON.parse(host.output()), place }
}

describe.skipIf(!canMount)('mounts below a workspace', () => {
  it('are refused, with a remedy', async () => {
    const { result, place } = await withMounts(
      `await new Sandbox({ ...options, workspace: 'copy-on-write' }).exec('true')`,
    )
    expect(result).toEqual([
      'WORKSPACE_UNSUPPORTED',
      expect.stringContaining(
        `mounted below it, at ${place}/project/node_modules: choose a workspace without mounts, or set submounts: 'pass'`,
      ),
    ])
  })

  it('are passed, also nested, read-only and of single files, and are no changes', async () => {
    const { result, place } = await withMounts(`
      const sandbox = new Sandbox({ ...options, workspace: { mode: 'copy-on-write', submounts: 'pass', undoSteps: 3 } })
      const run = async (command) => (await sandbox.exec(command, { mergeOutput: true })).all
      const seen = await run('cat node_modules/v node_modules/.cache/c vendor/r .env; ls -A node_modules')
      await run('echo new > node_modules/new; echo c2 > node_modules/.cache/c; echo e2 > .env; echo f2 > file; echo x > vendor/r')
      const changes = (await sandbox.workspace.changes()).map(({ path }) => path)
      const { submounts } = await sandbox.workspace.usage()
      await sandbox.undo()
      const undone = await run('cat file node_modules/new; rmdir vendor')
      const [fork] = await sandbox.fork(1)
      await fork.exec('echo fork > node_modules/fork; echo f3 > file; echo made > made')
      const shared = await run('cat node_modules/fork file')
      await fork.workspace.commit()
      for (const each of [fork, sandbox]) await each.destroy()
      return { seen, changes, submounts: submounts.map((each) => each.slice(options.cwd.length + 1)), undone, shared }`)
    expect(result).toEqual({
      seen: 'volume/vcache/cread/renv.cache\nv\n',
      changes: ['file'],
      submounts: ['.env', 'node_modules', 'node_modules/.cache', 'vendor'],
      undone: expect.stringMatching(/^project\/filenew\nrmdir: .*busy\n$/),
      shared: 'fork\nproject/file',
    })
    const read = (name: string) => readFileSync(path.join(place, name), 'utf8')
    expect(
      ['volume/new', 'volume/fork', 'cache/c', 'env', 'read/r', 'project/file', 'project/made'].map(read),
    ).toEqual([...['new\n', 'fork\n', 'c2\n', 'e2\n', 'read/r', 'f3\n', 'made\n']])
    expect(read('project/node_modules/beneath')).toBe('project/node_modules/beneath')
  })

  it('obey the rules of isolation', async () => {
    const { result } = await withMounts(`
      const filesystem = { write: ['.'], protect: ['node_modules/.cache'], hide: ['.env'] }
      const isolation = { filesystem }
      const sandbox = new Sandbox({ ...options, isolation, workspace: { mode: 'copy-on-write', submounts: 'pass' } })
      const { stdout } = await sandbox.exec('echo x > node_modules/x && cat node_modules/x; echo y > node_modules/.cache/c || cat node_modules/.cache/c; cat .env')
      await sandbox.destroy()
      return stdout`)
    expect(result).toBe('x\ncache/c')
  })

  it.skipIf(obstacle !== undefined)('cannot be passed by an ordinary user', async () => {
    const { result } = await withMounts(
      `await new Sandbox({ ...options, workspace: { mode: 'copy-on-write', submounts: 'pass' } }).exec('true')`,
      asOrdinaryUser,
    )
    expect(result).toEqual([
      'WORKSPACE_UNSUPPORTED',
      expect.stringContaining("only root with CAP_SYS_ADMIN can use submounts: 'pass'"),
    ])
  })
})
