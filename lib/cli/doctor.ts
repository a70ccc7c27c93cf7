/**
 * `nacre doctor`: reports what this machine supports, and how to add what is missing.
 */
import os from 'node:os'
import type { Command } from 'commander'
import type { Capabilities } from '../calls/index.js'
import { examineEngines } from './container/doctor.js'
import { addMachineOptions, type MachineFlags, refuseMachineOptions } from './container/options.js'
import { withExamples } from './examples.js'
import type { Finding } from './finding.js'
import { printable, printableLines, printJson, printLine, write } from './terminal.js'
import type { Finish } from './verb.js'

interface Options extends MachineFlags {
  json?: boolean
}

export function addDoctor(program: Command, finish: Finish): void {
  const doctor = program
    .command('doctor')
    .description('check what this machine supports, and suggest fixes')
    .option('--json', 'print JSON')
  addMachineOptions(doctor).action(async ({ json = false, ...machine }: Options) => {
    if (machine.vm) {
      const { measureMachine } = await import('./container/measure-vm.js')
      const measured = await measureMachine(machine)
      const line = ({ subject, value, unit }: (typeof measured)[number]) => `${subject}: ${value} ${unit}`
      await (json ? printJson(measured) : printLine(measured.map(line).join('\n')))
      return
    }
    refuseMachineOptions(machine)
    const [capabilities, { engines, containers }] = await Promise.all([capabilitiesHere(), examineEngines()])
    const findings = capabilities === null ? [] : examine(capabilities)
    const inside = containers.map(({ capabilities, ...container }) => ({
      ...container,
      ...(capabilities && { findings: examine(capabilities), capabilities }),
    }))
    if (json) await printJson({ findings, capabilities, engines, containers: inside })
    else {
      await write(process.stdout, `${title()}\n${report([...findings, ...engines])}`)
      for (const { name, engine, image, problem, findings = [] } of inside)
        await write(
          process.stdout,
          `\n${printable(`${name}, a container of ${engine} with ${image}`)}\n${problem === undefined ? report(findings) : printableLines(problem)}`,
        )
    }
    finish([...findings, ...engines].some(({ level }) => level === 'fail') ? 1 : 0)
  })
  withExamples(doctor, [
    ['nacre doctor --vm', 'starts virtual machines, and prints how long they take'],
    ['nacre doctor', 'prints one line per finding; exits with 1 if nothing can run'],
    ['nacre doctor --json', 'includes everything that `capabilities()` returns'],
  ])
}

/** What commands of this machine itself can use; null where there is no Linux. */
async function capabilitiesHere(): Promise<Capabilities | null> {
  if (process.platform !== 'linux') return null
  const { Sandbox } = await import('../backends/native/sandbox.js')
  await using sandbox = new Sandbox()
  return await sandbox.capabilities()
}

/** The findings about a machine, the worst last. */
export function examine(found: Capabilities): Finding[] {
  const { filesystem, network, processes } = found.isolation
  const findings = [
    ...[shell(found), trees(found), limits(found)],
    tier('file isolation', filesystem, {
      namespace: 'mount namespaces',
      landlock:
        'Landlock alone: `protect` and `hide` work only outside writable directories, and `mounts` not at all',
      none: 'none',
    }),
    tier('network isolation', network, {
      namespace: 'network namespaces',
      'landlock+seccomp': 'Landlock and seccomp, without a loopback interface',
      seccomp: "seccomp: 'none' only, no list of hosts",
      none: 'none',
    }),
    tier('process isolation', processes, {
      namespace: 'pid namespaces',
      landlock: 'Landlock: other processes are visible, but cannot be signalled or traced',
      none: 'none',
    }),
    workspaces(found),
  ]
  const order = { ok: 0, warn: 1, fail: 2 }
  return findings.sort((a, b) => order[a.level] - order[b.level])
}

function shell({ shell, shellVersion, engine }: Capabilities): Finding {
  if (shell === null) {
    const remedy = 'Install bash 5.0 or newer.'
    return { level: 'fail', subject: 'shell', text: 'no bash was found on PATH', remedy }
  }
  const text = `${shell} ${shellVersion}`
  if (engine === 'builtin')
    return { level: 'ok', subject: 'shell', text: `${text}, one persistent process per session` }
  const remedy = 'Use a dynamically linked bash 5.0 or newer, and mount /proc.'
  return { level: 'warn', subject: 'shell', text: `${text}, a new process for each command`, remedy }
}

function trees({ cgroup }: Capabilities): Finding {
  if (cgroup === 'v2') return { level: 'ok', subject: 'process trees', text: 'held in control groups' }
  return {
    level: 'warn',
    subject: 'process trees',
    text: 'tracked without control groups, which is slower',
    remedy: 'Mount cgroup v2 writable, or run under systemd with Delegate=yes.',
  }
}

function limits({ controllers }: Capabilities): Finding {
  const missing = ['memory', 'pids', 'cpu'].filter((name) => !controllers.includes(name))
  if (missing.length === 0)
    return { level: 'ok', subject: 'limits', text: 'memory, processes and processors' }
  return {
    level: 'warn',
    subject: 'limits',
    text: `missing controllers: ${missing.join(', ')}`,
    remedy:
      'Delegate these controllers to the control group of this process: see "Control groups" in https://github.com/nacre-dev/nacre/blob/main/docs/deploy.md.',
  }
}

/** How to make namespaces available to sessions. */
const NAMESPACES = `Run as root with CAP_SYS_ADMIN, or allow unprivileged user namespaces (sysctl user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns).`

function workspaces({ workspace }: Capabilities): Finding {
  const subject = 'workspaces'
  if (workspace.copyOnWrite) {
    const text = workspace.directoryRename
      ? 'copy-on-write'
      : 'copy-on-write; old directories cannot be renamed'
    return { level: 'ok', subject, text }
  }
  return { level: 'warn', subject, text: workspace.notes.join('; '), remedy: NAMESPACES }
}

function tier<Name extends string>(subject: string, name: Name, texts: Record<Name, string>): Finding {
  const text = texts[name]
  return name === 'namespace'
    ? { level: 'ok', subject, text }
    : { level: 'warn', subject, text, remedy: NAMESPACES }
}

function report(findings: Finding[]): string {
  const width = Math.max(...findings.map(({ subject }) => subject.length))
  const lines = findings.flatMap(({ level, subject, text, remedy }) => [
    `${level.padEnd(4)}  ${subject.padEnd(width)}  ${text}`,
    ...(remedy === undefined ? [] : [`${' '.repeat(width + 8)}${remedy}`]),
  ])
  return lines.map((line) => `${line}\n`).join('')
}

function title(): string {
  const system = process.platform === 'linux' ? 'Linux' : os.type()
  return `${system} ${os.release()}, ${os.arch()}, ${process.getuid?.() === 0 ? 'as root' : 'as an ordinary user'}`
}
