/** `nacre completion`: what the scripts of the shells offer is what commander defines. */
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Command } from 'commander'
import { Sandbox } from 'nacre'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { completionOf } from '../../lib/cli/completion.js'

const main = path.join(path.dirname(path.dirname(__dirname)), 'dist', 'cli', 'main.js')
const SHELLS = ['bash', 'zsh', 'fish'] as const

let directory: string
let env: NodeJS.ProcessEnv
const fileOf = (shell: string) => path.join(directory, `nacre.${shell}`)

beforeAll(() => {
  directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-completion-'))
  const bin = path.join(directory, 'bin')
  mkdirSync(bin)
  writeFileSync(path.join(bin, 'nacre'), `#!/bin/sh\nexec '${process.execPath}' '${main}' "$@"\n`)
  chmodSync(path.join(bin, 'nacre'), 0o755)
  env = { ...process.env, PATH: `${bin}:${process.env.PATH}`, HOME: directory }
  for (const shell of SHELLS)
    writeFileSync(fileOf(shell), execFileSync(process.execPath, [main, 'completion', shell]))
  mkdirSync(path.join(directory, 'sub dir'))
  writeFileSync(path.join(directory, 'token file'), '')
})

afterAll(() => rmSync(directory, { recursive: true }))

/** What bash would offer for the last of these words. */
function offers(...words: string[]): string[] {
  const quoted = ['nacre', ...words].map((word) => `'${word}'`).join(' ')
  const text = `COMP_WORDS=(${quoted}); COMP_CWORD=${words.length}; _nacre; printf '%s\\n' "\${COMPREPLY[@]}"`
  const args = ['--norc', '-c', `source "$0"; ${text}`, fileOf('bash')]
  const { status, stdout, stderr } = spawnSync('bash', args, { cwd: directory, env, encoding: 'utf8' })
  expect([status, stderr]).toEqual([0, ''])
  return stdout.split('\n').filter((line) => line !== '')
}

describe('in bash, nacre completion', () => {
  it('offers the verbs, those of a group, and their aliases', () => {
    expect(offers('')).toEqual(
      'exec try learn why workspace keep suspend resume up shell down ps logs attach cp ls doctor completion job serve worker queue mcp record replay help'.split(
        ' ',
      ),
    )
    expect(offers('job', 'l')).toEqual(['ls', 'list', 'logs'])
    expect(offers('help', 'j')).toEqual(['job'])
    expect(offers('nonsense', '')).toEqual([])
  })

  it('offers the options of the verb that was typed', () => {
    expect(offers('exec', '--')).toEqual([
      '--cwd',
      '--env',
      '--timeout',
      '--grace',
      '--isolation',
      '--json',
      '--tty',
      '--url',
      '--token-file',
      '--session',
      '--container',
      '--isolation-file',
      '--allow',
      '--secret',
      '--secret-file',
      '--request',
      '--authority',
      '--engine',
      '--image',
      '--runtime',
      '--mount',
      '--own',
      '--root',
      '--setup',
      '--fresh',
      '--vm',
      '--kernel',
      '--emulate',
      '--help',
    ])
    expect(offers('job', 'logs', '-')).toContain('-f')
    expect(offers('job', 'list', '--j')).toEqual(['--json'])
    expect(offers('--')).toEqual(['--version', '--help'])
  })

  it('offers values by their kind: directories, files, choices, or none', () => {
    expect(offers('exec', '--cwd', 'sub')).toEqual(['sub dir'])
    expect(offers('exec', '--cwd', 'token')).toEqual([])
    expect(offers('serve', '--token-file', 'token')).toEqual(['token file'])
    expect(offers('completion', '')).toEqual(['bash', 'zsh', 'fish'])
    expect(offers('exec', '--timeout', '')).toEqual([])
  })

  it('reads --option=value as bash splits it', () => {
    expect(offers('exec', '--cwd', '=', 'sub')).toEqual(['sub dir'])
    // Bun makes .bun in the home directory.
    const seen = offers('exec', '--cwd', '=').filter((name) => !name.startsWith('.'))
    expect(seen.sort()).toEqual(['bin', 'sub dir'])
    expect(offers('exec', '--cwd', '=', 'sub dir', '--gr')).toEqual(['--grace'])
  })

  it('offers programs for a command, and files for its arguments', () => {
    expect(offers('exec', 'bas')).toContain('bash')
    expect(offers('exec', '--timeout', '5s', '--', 'bas')).toContain('bash')
    expect(offers('exec', 'cat', 'tok')).toEqual(['token file'])
    expect(offers('job', 'start', 'cat', '--ro')).toEqual([])
  })

  it('works for a local install, and runs nothing of the present directory', () => {
    const own = path.join(directory, "it's local")
    const hostile = path.join(own, 'node_modules/.bin')
    mkdirSync(hostile, { recursive: true })
    writeFileSync(path.join(hostile, 'nacre'), `#!/bin/sh\ntouch '${directory}/ran'\n`)
    chmodSync(path.join(hostile, 'nacre'), 0o755)
    symlinkSync(main, path.join(own, 'main.js'))
    const script = execFileSync(process.execPath, [path.join(own, 'main.js'), 'completion', 'bash'])
    writeFileSync(path.join(own, 'script'), script)
    const text = `source ./script; COMP_WORDS=(nacre job l); COMP_CWORD=2; _nacre; echo "\${COMPREPLY[@]}"`
    const { stdout, stderr } = spawnSync('bash', ['--norc', '-c', text], {
      cwd: own,
      env: { ...process.env, PATH: '/usr/bin:/bin', HOME: directory },
      encoding: 'utf8',
    })
    expect([stdout, stderr]).toEqual(['ls list logs\n', ''])
    expect(existsSync(path.join(directory, 'ran'))).toBe(false)
    rmSync(own, { recursive: true })
  })

  it('completes a word when Tab is pressed on a terminal', async () => {
    await using sandbox = new Sandbox({ cwd: directory, env: { ...terminalEnv(), PS1: '$ ' } })
    const shell = await sandbox.startProcess('bash --norc -i', { pty: { cols: 200, rows: 24 } })
    await shell.write(`source ${fileOf('bash')}; nacre() { echo "r""an:$*:"; }; echo rea""dy\n`)
    await shell.waitForLog('ready')
    await shell.write('nacre job star\t--ti\t5s --cwd su\t tr\n')
    const { match } = await shell.waitForLog(/ran:(.*):/)
    expect(match?.[1]).toBe('job start --timeout 5s --cwd sub dir/ tr')
  })
})

describe.skipIf(!isInstalled('zsh'))('in zsh, nacre completion', () => {
  it('completes verbs, options, values and the words of a command on a terminal', async () => {
    await using sandbox = new Sandbox({ cwd: directory, env: terminalEnv() })
    const shell = await sandbox.startProcess('zsh -f -i', { pty: { cols: 200, rows: 24 } })
    const begin = 'autoload -Uz compinit; compinit -u -D; PS1="$ "; unsetopt zle_bracketed_paste'
    await shell.write(`${begin}; source ${fileOf('zsh')}; nacre() { echo "r""an:$*:"; }; echo rea""dy\n`)
    await shell.waitForLog('ready')
    await shell.write('nacre job star\t--ti\t5s --cwd=su\t tr\n')
    const { match } = await shell.waitForLog(/ran:(job .*):/)
    expect(match?.[1]).toBe('job start --timeout 5s --cwd=sub dir tr')
    await shell.write('nacre exec cat tok\t\n')
    expect((await shell.waitForLog(/ran:(exec .*):/)).match?.[1]).toMatch(/^exec cat token file ?$/)
  })
})

describe.skipIf(!isInstalled('fish'))('in fish, nacre completion', () => {
  const inFish = (line: string) => {
    const text = `source ${fileOf('fish')}; complete -C ${JSON.stringify(line)}`
    const { status, stdout, stderr } = spawnSync('fish', ['--no-config', '-c', text], {
      cwd: directory,
      env,
      encoding: 'utf8',
    })
    expect([status, stderr]).toEqual([0, ''])
    return stdout.split('\n').slice(0, -1)
  }

  it('completes verbs and options with their descriptions, values, and the words of a command', () => {
    expect(inFish('nacre job st')).toEqual([
      expect.stringMatching(/^start\t/),
      expect.stringMatching(/^status\t/),
    ])
    expect(inFish('nacre job logs --foll')).toEqual([
      '--follow\tcontinue until the job ends, and exit with its code',
    ])
    expect(inFish('nacre exec --cwd sub')).toEqual([expect.stringMatching(/^sub dir\//)])
    expect(inFish('nacre exec --cwd=sub')).toEqual([expect.stringMatching(/^--cwd=sub dir\//)])
    expect(inFish('nacre exec bas').join()).toMatch(/\bbash\b/)
    expect(inFish('nacre exec cat tok').map((row) => row.split('\t')[0])).toEqual(['token file'])
  })
})

describe('what completes the words of a command line', () => {
  const program = new Command('tool').exitOverride()
  program
    .command('paint')
    .description("paint it's walls")
    .option('-c, --colour <name>', 'of [all] walls: red')
    .argument('[command...]')

  it('a new verb and a new option appear by themselves', () => {
    expect(completionOf(program, ['pa'])).toEqual(['words', "paint\tpaint it's walls"])
    expect(completionOf(program, ['paint', '--c'])).toEqual(['words', '--colour\tof [all] walls: red'])
  })

  it('a value given with = is completed as one word', () => {
    expect(completionOf(program, ['paint', '--colour=r'])).toEqual(['words'])
    expect(completionOf(program, ['paint', '-c', ''])).toEqual(['words'])
  })

  it('the words after a command belong to it', () => {
    expect(completionOf(program, ['paint', 'ls', '--c'])).toEqual(['rest 2'])
    expect(completionOf(program, ['paint', '--', '--c'])).toEqual(['command'])
  })
})

function terminalEnv(): Record<string, string> {
  return { PATH: env.PATH ?? '', HOME: directory, TERM: 'dumb' }
}

function isInstalled(program: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${program}`]).status === 0
}
