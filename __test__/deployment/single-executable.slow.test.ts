/** One executable of Node.js with nacre in it: its addon and supervisor are assets. */
import { execFile, execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { hostTarget, packageName } from '../../scripts/packages/targets.mjs'
import { type Consumer, createConsumer } from '../helpers/consumer.js'

const run = promisify(execFile)
const root = path.dirname(path.dirname(__dirname))
const node = execFileSync('bash', ['-c', 'type -P node'], { encoding: 'utf8' }).trim()
/** The text that Node.js looks for in its own executable. */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2'

let base: string
let executable: string
let consumer: Consumer

beforeAll(async () => {
  base = mkdtempSync(path.join(os.tmpdir(), 'nacre-sea-'))
  executable = path.join(base, 'program')
  mkdirSync(path.join(base, 'tmp'))
  consumer = await createConsumer()
  consumer.write(
    'main.js',
    `import { Sandbox } from 'nacre'
    const sandbox = new Sandbox()
    sandbox.exec('echo inside').then(async ({ stdout }) => {
      await sandbox.destroy()
      console.log(stdout.trim())
    })`,
  )
  const bundle = [
    'main.js',
    '--bundle',
    '--platform=node',
    '--format=cjs',
    '--outfile=main.cjs',
    '--log-level=error',
  ]
  await consumer.runTool('esbuild', ...bundle)
  const native = path.join('node_modules', packageName(hostTarget()))
  const assets = Object.fromEntries(
    ['nacre.node', 'nacre-supervisor'].map((name) => [name, path.join(native, name)]),
  )
  const config = { main: 'main.cjs', output: 'main.blob', disableExperimentalSEAWarning: true, assets }
  consumer.write('sea.json', JSON.stringify(config))
  await consumer.run(node, '--experimental-sea-config', 'sea.json')
  copyFileSync(node, executable)
  const blob = path.join(consumer.directory, 'main.blob')
  const inject = [executable, 'NODE_SEA_BLOB', blob, '--sentinel-fuse', FUSE]
  await run(node, [path.join(root, 'node_modules/postject/dist/cli.js'), ...inject])
  consumer.remove()
}, 120_000)

afterAll(() => rmSync(base, { recursive: true, force: true }))

it('an executable of Node.js runs commands where nothing of nacre is installed', async () => {
  expect(existsSync(consumer.directory)).toBe(false)
  const env = { PATH: process.env.PATH, HOME: '/', TMPDIR: path.join(base, 'tmp') }
  expect((await run(executable, { cwd: '/', env })).stdout).toBe('inside\n')
  const [directory = ''] = readdirSync(path.join(base, 'tmp')).filter((name) => name.endsWith('-bin'))
  expect(readdirSync(path.join(base, 'tmp', directory)).sort()).toEqual([
    expect.stringMatching(/^nacre-supervisor-[0-9a-f]{16}$/),
    expect.stringMatching(/^nacre\.node-[0-9a-f]{16}$/),
  ])
}, 60_000)
