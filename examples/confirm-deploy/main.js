/** An agent deploys with a command that a person must confirm. */
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { deploy } from './deploy.js'

/** What the agent does. Replace it with the commands of your model. */
const COMMANDS = [
  'mkdir site && echo "<h1>Hello</h1>" > site/index.html',
  'tar cz site | deploy staging',
  'tar cz site | deploy production || echo "I will ask again tomorrow"',
  'tar cz site | deploy moon',
]

const directory = await mkdtemp(path.join(os.tmpdir(), 'deploy-'))
const sandbox = new Sandbox({ cwd: directory, isolation: 'workspace', commands: { deploy } })
try {
  for (const command of COMMANDS) {
    console.log(`$ ${command}`)
    const { all, exitCode } = await sandbox.exec(command, { mergeOutput: true, timeout: 600_000 })
    process.stdout.write(all)
    if (exitCode !== 0) console.log(`[exit code ${exitCode}]`)
  }
} finally {
  await sandbox.destroy()
  await rm(directory, { recursive: true })
}
