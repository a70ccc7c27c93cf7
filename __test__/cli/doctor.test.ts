/** `nacre doctor`: what it finds on this machine and on others, and what it says to do. */
import { execFileSync, spawnSync } from 'node:child_process'
import path from 'node:path'
import { type Capabilities, Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { examine } from '../../lib/cli/doctor.js'

const main = path.join(path.dirname(path.dirname(__dirname)), 'dist', 'cli', 'main.js')
const doctor = (args: string[], env: NodeJS.ProcessEnv = {}) =>
  spawnSync(process.execPath, [main, 'doctor', ...args], {
    encoding: 'utf8',
    env: { ...process.env, ...env },
  })

async function here(): Promise<Capabilities> {
  const sandbox = new Sandbox()
  try {
    return await sandbox.capabilities()
  } finally {
    await sandbox.destroy()
  }
}

describe('nacre doctor', () => {
  it('prints a line for each subject, the machine first', () => {
    const { status, stdout, stderr } = doctor([])
    expect([status, stderr]).toEqual([0, ''])
    expect(stdout).toMatch(/^Linux \S+, \S+, as (root|an ordinary user)\n/)
    const isolation = ['file isolation', 'network isolation']
    for (const subject of ['shell', 'process trees', 'limits', ...isolation, 'workspaces'])
      expect(stdout).toMatch(new RegExp(`^(ok|warn) +${subject} `, 'm'))
  })

  it('prints JSON with the findings and everything that capabilities() gives', async () => {
    const { findings, capabilities } = JSON.parse(
      execFileSync(process.execPath, [main, 'doctor', '--json'], { encoding: 'utf8' }),
    )
    expect(capabilities).toEqual(JSON.parse(JSON.stringify(await here())))
    expect(findings).toHaveLength(7)
  })

  it('says what to do about missing namespaces', () => {
    const { status, stdout } = doctor([], { NACRE_ISOLATION: 'landlock' })
    expect(status).toBe(0)
    expect(stdout).toMatch(/warn +file isolation +Landlock alone.*\n +Run as root with CAP_SYS_ADMIN/)
    expect(doctor([], { NACRE_ISOLATION: 'none' }).stdout).toMatch(/warn +process isolation +none\n/)
  })

  it('puts the worst last, and has a remedy for each finding that is not ok', async () => {
    const found = await here()
    const poor: Capabilities = {
      ...found,
      shell: null,
      cgroup: 'none',
      controllers: ['pids'],
      isolation: { filesystem: 'none', network: 'seccomp', processes: 'none', notes: [], trust: 'variables' },
      workspace: { copyOnWrite: false, directoryRename: false, reflink: false, notes: ['no mounts'] },
    }
    const findings = examine(poor)
    expect(findings.map(({ level }) => level)).toEqual([...Array(6).fill('warn'), 'fail'])
    expect(findings.every(({ remedy }) => remedy !== undefined)).toBe(true)
    expect(findings.find(({ subject }) => subject === 'limits')).toMatchObject({
      text: 'missing controllers: memory, cpu',
      remedy: expect.stringContaining(
        'see "Control groups" in https://github.com/nacre-dev/nacre/blob/main/docs/deploy.md',
      ),
    })
    expect(examine({ ...found, engine: 'plain' }).find(({ subject }) => subject === 'shell')?.level).toBe(
      'warn',
    )
  })
})
