/** An agent changes a project and breaks it. The user takes back its last commands until the tests pass, and keeps the rest. */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { Sandbox } from 'nacre'

/** What the agent does. Replace it with the commands of your model. */
const COMMANDS = [
  "sed -i 's/hello/hello, $1/' src/greet.sh",
  "sed -i 's/hello/hello, you/; s/greet.sh/greet.sh you/' test/run.sh",
  'cd src; DEBUG=1',
  // From here on, it goes wrong.
  'echo "exit $DEBUG" > greet.sh',
  'rm -rf ../test; cd ..',
]

const base = await mkdtemp(path.join(os.tmpdir(), 'undo-'))
const project = path.join(base, 'project')
await createProject()
const sandbox = new Sandbox({
  cwd: project,
  stateDir: path.join(base, 'state'),
  workspace: { mode: 'copy-on-write', undoSteps: 50 },
})
try {
  for (const command of COMMANDS) {
    await sandbox.exec(command)
    console.log(`$ ${command}`)
  }
  while (!(await testsPass())) {
    const { command } = await sandbox.undo()
    console.log(`undone: ${command}`)
  }
  // The shell is in the directory, and has the variables, of that moment.
  const { stdout } = await sandbox.exec('echo "$(basename "$PWD") $DEBUG"')
  console.log(`the shell: ${stdout.trimEnd()}`)
  for (const { type, path } of await sandbox.workspace.changes()) console.log(`${type} ${path}`)
  await sandbox.workspace.commit()
  console.log(`committed: ${(await readFile(path.join(project, 'src/greet.sh'), 'utf8')).trimEnd()}`)
} finally {
  await sandbox.destroy()
  await rm(base, { recursive: true })
}

/** A process, not a command: it needs no undo step of its own. */
async function testsPass() {
  const tests = await sandbox.startProcess('sh test/run.sh', { cwd: project })
  return (await tests.waitForExit()).exitCode === 0
}

async function createProject() {
  await mkdir(path.join(project, 'src'), { recursive: true })
  await mkdir(path.join(project, 'test'))
  await writeFile(path.join(project, 'src/greet.sh'), 'echo "hello"\n')
  await writeFile(path.join(project, 'test/run.sh'), '[ "$(sh src/greet.sh)" = "hello" ]\n')
}
