/**
 * An agent's session, in whatever container this runs: `node agent.js begin <file>` begins one, and `node agent.js go-on <file>` goes on
 * with it. The project is the present directory.
 */
import { Sandbox } from 'nacre'

const [, , what, file] = process.argv
const options = { stateDir: process.env.STATE_DIR }

/** Runs a command of the agent, and prints what a model would get. */
async function run(sandbox, command) {
  const { stdout } = await sandbox.exec(command)
  console.log(`$ ${command}`)
  if (stdout !== '') console.log(stdout.trimEnd())
}

if (what === 'begin') {
  const sandbox = new Sandbox({ ...options, workspace: 'copy-on-write' })
  await run(sandbox, 'cd src; greet() { sh greet.sh "$@"; }')
  await run(sandbox, "sed -i 's/hello/hello, $1/' greet.sh")
  await run(sandbox, 'export WHO=world; greet $WHO')
  await sandbox.exec('sleep 600 &')
  const { files, sessions } = await sandbox.suspend(file)
  console.log(`suspended: ${files} files, sessions: ${sessions}`)
} else {
  const { sandbox, missing } = await Sandbox.resume(file, options)
  for (const text of missing) console.log(`missing: ${text}`)
  // The directory, the function and the variable are there, and so is the changed file.
  await run(sandbox, 'basename $PWD; greet $WHO; echo "on $MACHINE"')
  for (const { type, path } of await sandbox.workspace.changes()) console.log(`${type} ${path}`)
  await sandbox.workspace.commit()
  await sandbox.destroy()
}
