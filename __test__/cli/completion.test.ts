/** `nacre completion`: the scripts complete what commander defines. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Command } from 'commander'
import { Sandbox } from 'nacre'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { completionScript } from '../../lib/cli/completion/script.js'

const main = path.join(path.dirname(path.dirname(__dirname)), 'dist', 'cli', 'main.js')
const SHELLS = ['bash', 'zsh', 'fish'] as const

let directory: string
const scripts: Record<string, string> = {}
const fileOf = (shell: string) => path.join(directory, `nacre.${shell}`)

beforeAll(() => {
  directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-completion-'))
  for (const shell of SHELLS) {
    scripts[shell] = execFileSync(process.execPath, [main, 'completion', shell], { encoding: 'utf8' })
    writeFileSync(fileOf(shell), scripts[shell])
  }
  mkdirSync(path.join(directory, 'sub dir'))
  writeFileSync(path.join(directory, 'token file'), '')
})

afterAll(() => rmSync(directory, { recursive: true }))

/** Runs text in a bash that has sourced a script first, and gives the lines that it prints. */
function inBash(script: string, text: string): string[] {
  const program = `source "$0"; ${text}`
  const args = ['--norc', '-c', program, script]
  const { status, stdout, stderr } = spawnSync('bash', args, { cwd: directory, encoding: 'utf8' })
  expect([status, stderr]).toEqual([0, ''])
  return stdout.split('\n').slice(0, -1)
}

/** What bash would offer for the last of these words. */
function offers(...words: string[]): string[] {
  const quoted = ['nacre', ...words].map((word) => `'${word}'`).join(' ')
  return inBash(
    fileOf('bash'),
    `COMP_WORDS=(${quoted}); COMP_CWORD=${words.length}; _nacre; printf '%s\\n' "\${COMPREPLY[@]}"`,
  ).filter((line) => line !== '')
}

describe('in bash, nacre completion', () => {
  it('offers the verbs, those of a group, and their aliases', () => {
    expect(offers('')).toEqual(
      'exec try workspace cp ls doctor completion job serve worker queue mcp help'.split(' '),
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
    expect(offers('exec', '--cwd', '=')).toEqual(['sub dir'])
    expect(offers('exec', '--cwd', '=', 'sub dir', '--gr')).toEqual(['--grace'])
  })

  it('offers programs for a command, and files for its arguments', () => {
    expect(offers('exec', 'bas')).toContain('bash')
    expect(offers('exec', '--timeout', '5s', '--', 'bas')).toContain('bash')
    expect(offers('exec', 'cat', 'tok')).toEqual(['token file'])
    expect(offers('job', 'start', 'cat', '--ro')).toEqual([])
  })

  it('completes a word when Tab is pressed on a terminal', async () => {
    await using sandbox = new Sandbox({ cwd: directory, env: { PS1: '$ ', TERM: 'dumb' } })
    const shell = await sandbox.startProcess('bash --norc -i', { pty: { cols: 200, rows: 24 } })
    await shell.write(`source ${fileOf('bash')}; nacre() { echo "r""an:$*:"; }; echo rea""dy\n`)
    await shell.waitForLog('ready')
    await shell.write('nacre job star\t--ti\t5s --cwd su\t tr\n')
    const { match } = await shell.waitForLog(/ran:(.*):/)
    expect(match?.[1]).toBe('job start --timeout 5s --cwd sub dir/ tr')
  })
})

/** A zsh script has the syntax of bash too, so bash can show what the functions give to zsh. */
const ZSH_STUBS = `_arguments() { printf '%s\\n' "$@"; }; _describe() { printf '%s\\n' "\${verbs[@]}"; }; compdef() { :; }`

describe('in zsh, nacre completion', () => {
  it('describes the options of a verb and the completion of their values', () => {
    const stubbed = path.join(directory, 'stubbed.zsh')
    writeFileSync(stubbed, `${ZSH_STUBS}\n${scripts.zsh}`)
    const specs = inBash(stubbed, '_nacre_job_logs')
    expect(specs).toContain('(-f --follow)--follow[continue until the job ends, and exit with its code]')
    expect(specs).toContain('--cursor=[skip this many bytes]:value: ')
    expect(specs.find((spec) => spec.startsWith('--root='))).toMatch(/:value:_files -\/$/)
    expect(inBash(stubbed, '_nacre_exec').at(-1)).toBe('*::command:_normal')
    expect(inBash(stubbed, '_nacre_completion').at(-1)).toBe('*:shell:(bash zsh fish)')
    expect(inBash(stubbed, 'state=verb; _nacre_job')).toContain('*:: :->rest')
  })

  it('is a script that a shell can parse', () => {
    // bash parses it where there is no zsh.
    const shell = isInstalled('zsh') ? 'zsh' : 'bash'
    expect(spawnSync(shell, ['-n', fileOf('zsh')], { encoding: 'utf8' })).toMatchObject({
      status: 0,
      stderr: '',
    })
    expect(scripts.zsh).toMatch(/^#compdef nacre\n/)
  })
})

describe('in fish, nacre completion', () => {
  it('has a line for each option and each verb', () => {
    // The words of these lines are quoted as in bash.
    const lines = path.join(directory, 'lines.fish')
    const commands = (scripts.fish ?? '').split('\n').filter((line) => line.startsWith('complete '))
    writeFileSync(lines, `complete() { local IFS='|'; printf '%s\\n' "$*"; }\n${commands.join('\n')}`)
    const words = inBash(lines, ':')
    const logs = '-c|nacre|-n|__nacre_at "nacre job logs"'
    expect(words).toContain(`${logs}|-s|f|-l|follow|-d|continue until the job ends, and exit with its code`)
    expect(words).toContain(`${logs}|-l|cursor|-r|-f|-d|skip this many bytes`)
    expect(words).toContain('-c|nacre|-n|__nacre_at "nacre job"|-f|-a|ls|-d|list jobs')
    expect(words).toContain('-c|nacre|-n|__nacre_at "nacre completion"|-f|-a|bash zsh fish')
  })

  it('is a script whose blocks are closed', () => {
    if (isInstalled('fish')) {
      expect(spawnSync('fish', ['-n', fileOf('fish')], { encoding: 'utf8' })).toMatchObject({ status: 0 })
    }
    const words = (scripts.fish ?? '').split('\n').map((line) => line.trim().split(' ')[0])
    const opened = words.filter((word) => ['function', 'for', 'switch', 'if'].includes(word ?? '')).length
    expect(opened).toBeGreaterThan(2)
    expect(words.filter((word) => word === 'end')).toHaveLength(opened)
  })
})

it('a new option and a new verb appear in all scripts by themselves', () => {
  const program = new Command('tool').exitOverride()
  program.command('paint').description("paint it's walls").option('--colour <name>', 'of [all] walls: red')
  for (const shell of SHELLS) {
    const script = completionScript(shell, program)
    expect(script).toContain('paint')
    expect(script).toContain('colour')
    expect(script).not.toContain('nacre')
    const file = path.join(directory, `tool.${shell}`)
    writeFileSync(file, script)
    if (shell !== 'fish') expect(spawnSync('bash', ['-n', file]).status).toBe(0)
  }
  expect(completionScript('zsh', program)).toContain("'--colour=[of \\[all\\] walls\\: red]:value: '")
})

function isInstalled(program: string): boolean {
  return spawnSync('sh', ['-c', `command -v ${program}`]).status === 0
}
