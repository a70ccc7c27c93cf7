/** The programs that start a virtual machine: `nacre shell`, `nacre doctor` and `@nacre/mcp`. Run by `npm run test:vm`. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { promisify } from 'node:util'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { expect, it } from 'vitest'
import { inTerminal } from '../helpers/cli.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf } from '../helpers/thrown.js'

const root = path.dirname(path.dirname(__dirname))
const kernel = process.env.NACRE_TEST_OWN_KERNEL ?? ''
const EMULATED = ['--vm', '--emulate', '--kernel', kernel]
/** Milliseconds in which a machine starts on a busy test machine. */
const BOOT_MS = 240_000

it(
  'nacre shell is a terminal in the machine, which keeps the state of its shell',
  () =>
    inTerminal(`shell ${EMULATED.join(' ')} --cwd .`, async (terminal, { sandbox, directory }) => {
      const type = (text: string) => terminal.write(`${text}\n`)
      await type('uname -r; x=5; cd /usr')
      await terminal.waitForLog(/^6\.\d+\.\d+\s/m, { timeout: BOOT_MS })
      await type('echo "at $PWD with $x" >"$OLDPWD/seen"; exit 3')
      expect(await terminal.waitForExit()).toMatchObject({ exitCode: 3 })
      expect((await sandbox.exec(['cat', path.join(directory, 'seen')])).stdout).toBe('at /usr with 5\n')
    }),
  BOOT_MS,
)

it(
  'nacre doctor starts machines, and prints what they take',
  async () => {
    const words = [path.join(root, 'dist/cli/main.js'), 'doctor', ...EMULATED, '--json']
    const { stdout } = await promisify(execFile)(process.execPath, words)
    const measured = JSON.parse(stdout) as { subject: string; value: number; unit: string }[]
    expect(measured.map(({ unit }) => unit)).toEqual(['ms', 'ms', 'ms', 'MB/s', 'ms', 'ms'])
    expect(measured.every(({ subject, value }) => subject !== '' && value > 0)).toBe(true)
  },
  2 * BOOT_MS,
)

it.each([
  ['without isolation', []],
  ['with a preset for its sessions', ['--isolation', 'workspace']],
])(
  'nacre exec reaches the hosts of --allow alone, %s',
  async (_, isolation) => {
    const server = http.createServer((_request, response) => response.end('of the machine'))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const { port } = server.address() as AddressInfo
    try {
      const command = `curl -sS http://127.0.0.1:${port}/; curl -sS http://127.0.0.1:1/`
      const words = ['exec', ...EMULATED, ...isolation, '--cwd', temporary('nacre-vm-exec-')]
      const main = path.join(root, 'dist/cli/main.js')
      const ends = [
        main,
        ...words,
        '--allow',
        `127.0.0.1:${port}`,
        '--',
        'sh',
        '-c',
        `export NO_PROXY= no_proxy=; ${command}`,
      ]
      const { stdout } = await promisify(execFile)(process.execPath, ends)
      expect(stdout).toBe('of the machinenacre: the option network does not allow 127.0.0.1:1\n')
    } finally {
      server.close()
    }
  },
  BOOT_MS,
)

it('nacre exec and shell refuse rules for the network that a machine cannot have', async () => {
  const refusal = async (...words: string[]) => {
    const run = promisify(execFile)(process.execPath, [path.join(root, 'dist/cli/main.js'), ...words])
    return (await rejectionOf(run)) as Error & { stderr: string }
  }
  const secret = await refusal(
    'exec',
    ...EMULATED,
    '--allow',
    'a.test:1',
    '--request',
    'a.test: GET /**',
    'true',
  )
  expect(secret.stderr).toContain('--request and --authority are not possible with --vm')
  expect((await refusal('shell', '--allow', 'a.test:1')).stderr).toContain('--allow is for a virtual machine')
})

it(
  'the MCP server runs commands in the machine, with its rules',
  async () => {
    const project = temporary('nacre-vm-mcp-')
    writeFileSync(path.join(project, 'file'), 'of the machine\n')
    const server = http.createServer((_request, response) => response.end('of a host'))
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const host = `127.0.0.1:${(server.address() as AddressInfo).port}`
    const client = new Client({ name: 'test', version: '1' })
    const names = ['PATH', 'HOME', 'NACRE_NATIVE'].filter((name) => process.env[name] !== undefined)
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [path.join(root, 'packages/mcp/dist/main.js'), ...EMULATED, '--allow', host],
      cwd: project,
      env: Object.fromEntries(names.map((name) => [name, process.env[name] ?? ''])),
    })
    try {
      await client.connect(transport, { timeout: BOOT_MS })
      const run = async (command: string) => {
        const { content } = await client.callTool({ name: 'bash', arguments: { command } })
        return (content as { text: string }[])[0]?.text ?? ''
      }
      expect(await run('uname -r; cat file')).toMatch(/\n6\.\d+\.\d+\nof the machine/)
      expect(await run(`NO_PROXY= no_proxy= curl -sS http://${host}/`)).toContain('of a host')
      expect(client.getInstructions()).toContain(`It reaches only ${host}, by the proxy`)
      expect(await run('echo x > /etc/hostname; ls /sys/class/net')).toMatch(/Read-only file system[\s\S]*lo/)
    } finally {
      await client.close()
      server.close()
    }
  },
  BOOT_MS,
)
