/** What docs/public/try.cast shows: see record.sh. A person types in a terminal with bash. */
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Sandbox } from 'nacre'

const root = path.resolve(import.meta.dirname, '../..')
const directory = mkdtempSync(path.join(os.tmpdir(), 'demo-'))
const project = path.join(directory, 'shop')
mkdirSync(path.join(project, 'src'), { recursive: true })
writeFileSync(path.join(project, 'src/cart.js'), 'export const total = 3\n')
script(
  path.join(project, 'agent'),
  'echo "agent: cleaning up"; rm -r src; echo 2.0 > VERSION; echo "agent: done"',
)
script(path.join(directory, 'bin/nacre'), `exec ${process.execPath} ${root}/dist/cli/main.js "$@"`)
writeFileSync(
  path.join(project, 'undo.mjs'),
  `import { Sandbox } from '${root}/dist/index.js'
const sandbox = new Sandbox({ workspace: { mode: 'copy-on-write', undoSteps: 9 } })
async function run(command) {
  console.log('\\x1b[36mexec\\x1b[0m', command)
  process.stdout.write((await sandbox.exec(command)).stdout)
}
await run('rm -r src; ls')
console.log('\\x1b[32mundo\\x1b[0m', (await sandbox.undo()).command)
await run('ls')
`,
)

const sandbox = new Sandbox({ cwd: project, env: { PATH: `${directory}/bin:${process.env.PATH}` } })
try {
  const shell = await sandbox.startProcess(`PS1='$ ' exec bash --norc`, { pty: { cols: 72, rows: 20 } })
  const shown = (async () => {
    for await (const event of shell.output()) if (event.type === 'stdout') process.stdout.write(event.data)
  })()
  await shell.waitForInput()
  await type('nacre try -- ./agent\r')
  await shell.waitForLog('discard')
  await pause(1800)
  await type('x\r')
  await shell.waitForInput()
  await pause(500)
  await type('ls\r')
  await pause(900)
  await type('node undo.mjs\r')
  await shell.waitForInput()
  await pause(1500)
  await shell.kill()
  await shown

  async function type(text, delay = 35) {
    for (const letter of text) {
      await shell.write(letter)
      await pause(delay)
    }
  }
} finally {
  await sandbox.destroy()
  rmSync(directory, { recursive: true, force: true })
}

function script(file, content) {
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, `#!/bin/bash\n${content}\n`)
  chmodSync(file, 0o755)
}

function pause(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds))
}
