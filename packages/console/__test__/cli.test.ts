/** `nacre record`, `nacre replay` and `nacre serve --record`. */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { type Cli, inTerminal, withCli } from '../../../__test__/helpers/cli.js'
import { onlyCast, readCast, screenAfter, screenOf } from './places.js'

const file = ({ root }: Cli, name: string) => path.join(path.dirname(root), name)

describe('nacre record', () => {
  it('records a command with its exit code, and prints what it prints', () =>
    withCli(async (cli) => {
      const output = file(cli, 'demo.cast')
      const env = { MY_API_KEY: 'very-secret-value' }
      const words = ['record', '-o', output, 'echo hello; tty >&2; echo $MY_API_KEY; exit 7']
      const { code, stdout, stderr } = await cli.start(words, '', env).ended
      expect([code, stderr]).toEqual([7, `nacre: recorded in ${output}\n`])
      expect(stdout).toMatch(/^hello\r\n\/dev\/pts\/\d+\r\nvery-secret-value\r\n$/)
      const cast = readCast(output)
      expect(cast.output).toBe(stdout.replace('very-secret-value', '[redacted]'))
      expect(cast.events.at(-1)?.slice(1)).toEqual(['x', '7'])
      const again = await cli.nacre('record', '-o', output, 'true')
      expect([again.code, again.stderr]).toEqual([
        2,
        expect.stringContaining(`--output ${output} exists already`),
      ])
    }))

  it('records a shell in a terminal, and its size', () =>
    inTerminal('record -o demo.cast "echo ready; exec bash --norc"', async (terminal, { directory }) => {
      await terminal.waitForLog('ready')
      await terminal.write('PS1=; echo $((1 + 1))$COLUMNS; read x\n')
      await terminal.waitForLog('2100')
      await terminal.resize(90, 20)
      await terminal.write(
        '\nuntil [ "$(stty size)" = "20 90" ]; do sleep 0.01; done; echo re""sized; exit 5\n',
      )
      await terminal.waitForLog('resized')
      expect(await terminal.waitForExit()).toMatchObject({ exitCode: 5 })
      const cast = readCast(path.join(directory, 'demo.cast'))
      expect(cast.header.term).toMatchObject({ cols: 100, rows: 30 })
      expect(cast.events.filter(([, code]) => code === 'r').map(([, , data]) => data)).toEqual(['90x20'])
      const { stdout } = await terminal.getLogs()
      const shown = stdout.slice(0, stdout.lastIndexOf('nacre: recorded'))
      expect(await screenOf(cast)).toBe(await screenAfter(90, 20, shown))
    }))
})

describe('nacre replay', () => {
  const CAST =
    '{"version":3,"term":{"cols":80,"rows":24}}\n# a comment\n[0.1, "o", "one\\r\\n"]\n[0, "i", "typed"]\n[900, "m", "far"]\n[0.01, "o", "two"]\n[0, "x", "0"]\n'

  it('plays a recording, also a compressed one, with short pauses', () =>
    withCli(async (cli) => {
      const plain = file(cli, 'a.cast')
      const packed = file(cli, 'a.cast.gz')
      writeFileSync(plain, CAST)
      writeFileSync(packed, gzipSync(CAST))
      for (const words of [
        [plain, '--max-pause', '10ms'],
        [packed, '--print'],
        [plain, '--speed', '1000'],
      ])
        expect(await cli.nacre('replay', ...words)).toEqual({ code: 0, stdout: 'one\r\ntwo', stderr: '' })
      const running = cli.start(['replay', '--max-pause', '1h', plain])
      await running.printed('one')
      running.child.kill('SIGINT')
      expect(await running.ended).toMatchObject({ code: 130, stdout: 'one\r\n' })
    }))

  it('refuses what is no recording', () =>
    withCli(async (cli) => {
      const refused = async (content: string | Buffer, name = 'b.cast') => {
        writeFileSync(file(cli, name), content)
        const { code, stderr } = await cli.nacre('replay', file(cli, name))
        expect(code).toBe(2)
        return stderr
      }
      expect(await refused('')).toContain('is empty')
      expect(await refused('{"version":2}\n')).toContain('is no recording in the format asciicast v3')
      expect(await refused('text\n', 'c.cast.gz')).toContain('cannot be read: Z_DATA_ERROR')
      expect(await refused(`${CAST}${'x'.repeat(9_000_000)}`)).toContain('longer than')
      expect((await cli.nacre('replay', file(cli, 'none'))).stderr).toContain('cannot be read: ENOENT')
      expect((await cli.nacre('replay', '--speed', '0', 'x')).stderr).toContain('above 0')
    }))
})

describe('nacre serve --record', () => {
  it('records sessions and processes, hides both files from commands, and stores all at the end', () =>
    withCli(async (cli) => {
      const directory = file(cli, 'recordings')
      const redact = file(cli, 'redact')
      writeFileSync(redact, 'hidden-word\n')
      const words = [
        'serve',
        '--port',
        '0',
        '--isolation',
        'workspace',
        '--record',
        directory,
        '--redact-file',
        redact,
      ]
      const running = cli.start(words)
      await running.printed('nacre listens on')
      const client = new SandboxClient({ url: /http:\S+/.exec(running.soFar())?.[0] ?? '' })
      await client.exec('echo hidden-word shown')
      const seen = await client.exec(`cat ${redact}; ls -A ${directory}`)
      expect(seen.stdout).toBe('')
      await client
        .startProcess('echo on; exec sleep 100', { processId: 'web' })
        .then((web) => web.waitForLog('on'))
      running.child.kill('SIGTERM')
      expect(await running.ended).toMatchObject({ code: 0 })
      expect(onlyCast(directory, 'session-default').output).toContain('\r\n[redacted] shown\r\n')
      const web = onlyCast(directory, 'process-web')
      expect([web.output, web.events.at(-1)?.slice(1)]).toEqual([
        'on\r\n',
        ['x', expect.stringMatching(/^1(43|37)$/)],
      ])
      expect(readFileSync(redact, 'utf8')).toBe('hidden-word\n')
    }))

  it('refuses options that need it', () =>
    withCli(async (cli) => {
      const refused = async (...words: string[]) => (await cli.nacre('serve', ...words)).stderr
      expect(await refused('--record-limit', '1GB')).toContain('need --record')
      expect(await refused('--record', 'x', '--record-limit', '1X')).toContain('a size like 64MB')
      expect(await refused('--record', 'x', '--record-limit', '1MB')).toContain('limit')
      expect(await refused('--record', '/dev/null/x', '--isolation', 'workspace')).toContain(
        'cannot be created: ENOTDIR',
      )
      expect(await refused('--record', 'x', '--stdio')).toContain('record in the client')
    }))
})
