/** The programs that start a virtual machine: `nacre shell`, `nacre doctor` and `@nacre/mcp`. Run by `npm run test:vm`. */
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { expect, it } from 'vitest'
import { inTerminal } from '../helpers/cli.js'
import { temporary } from '../helpers/temporary.js'

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

it(
  'the MCP server runs commands in the machine, with its rules',
  async () => {
    const project = temporary('nacre-vm-mcp-')
    writeFileSync(path.join(project, 'file'), 'of the machine\n')
    const client = new Client({ name: 'test', version: '1' })
    const names = ['PATH', 'HOME', 'NACRE_NATIVE'].filter((name) => process.env[name] !== undefined)
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [path.join(root, 'packages/mcp/dist/main.js'), ...EMULATED],
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
      expect(await run('echo x > /etc/hostname; ls /sys/class/net')).toMatch(/Read-only file system[\s\S]*lo/)
    } finally {
      await client.close()
    }
  },
  BOOT_MS,
)
