/**
 * Uses mounts as the user and on the runtime of a test, and prints what programs and file calls see as JSON:
 * `mounts-runner.mjs MODULE`, with { bestEffort, workspace } as JSON on standard input.
 */
import fs from 'node:fs'
import path from 'node:path'

const { Sandbox } = await import(process.argv[2])
const { bestEffort, workspace } = JSON.parse(fs.readFileSync(0, 'utf8'))

const base = fs.mkdtempSync('/var/tmp/nacre-mounts-')
const at = (name) => path.join(base, name)
for (const name of ['own', 'home/project', 'covered']) fs.mkdirSync(at(name), { recursive: true })
fs.writeFileSync(at('own/key'), 'own\n')
fs.writeFileSync(at('covered/key'), 'MACHINE\n')
fs.writeFileSync(at('covered/canary'), 'MACHINE\n')

const missing = `nacre-${process.pid}`
const home = `/home/${missing}/user`
const sandbox = new Sandbox({
  cwd: path.join(home, 'project'),
  jobsRoot: at('jobs'),
  stateDir: at('state'),
  isolation: {
    bestEffort,
    network: 'none',
    processes: 'own',
    filesystem: {
      mounts: [
        { source: at('home'), target: home },
        { source: at('own'), target: at('covered') },
        { source: at('own'), target: `/${missing}` },
      ],
    },
  },
  ...(workspace && { workspace: { mode: 'copy-on-write', path: at('home') } }),
})
const probe = `pwd; echo x > file; cat file ${at('covered/key')} /${missing}/key; ls ${at('covered')}`
const results = {}
try {
  results.exec = (await sandbox.exec(probe)).all
  if (!workspace) {
    const { jobId } = await sandbox.jobs.start({ command: probe })
    await sandbox.jobs.wait(jobId)
    results.exec += (await sandbox.jobs.read(jobId)).raw
    await sandbox.jobs.remove(jobId)
  }
  results.file = await sandbox.files.read(`${home}/project/file`)
  if (workspace) {
    const checkpoint = await sandbox.checkpoint()
    await sandbox.exec('echo y > file')
    await sandbox.rollback(checkpoint)
    results.again = (await sandbox.exec('cat file; echo z > new && cat new')).all
  }
} catch (error) {
  results.failed = { code: error.code, message: error.message }
} finally {
  await sandbox.destroy()
}
results.written = fs.readdirSync(at('home/project'))
results.machine = fs.readdirSync(at('covered')).sort()
results.made = [`/${missing}`, `/home/${missing}`].filter((file) => fs.existsSync(file))
fs.rmSync(base, { recursive: true, force: true })
process.stdout.write(JSON.stringify({ ...results, home, base }))
