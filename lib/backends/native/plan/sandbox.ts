/**
 * The options of a sandbox and its sessions, with their defaults.
 */
import { os, path } from '../../../base/builtin.js'
import { invalidOption } from '../../../base/errors.js'
import { absolute, resolveFrom } from '../../../base/working-directory.js'
import type { NativeConfig, NativeIsolation, NativeSession } from '../../../boundary/index.js'
import type { HostCommand, Logger } from '../../../calls/index.js'
import { sandboxOptions } from '../../../calls/sandbox.js'
import type { sessionOptions } from '../../../calls/session.js'
import type { EnvLists } from '../../../schema/env.js'
import { completeRules, type GivenRules } from '../../../schema/isolation-rules.js'
import type { OptionValues } from '../../../schema/kind.js'
import { quote, readOptions, withDefaults } from '../../../schema/read.js'
import { covered, placeholdersOf } from '../secrets.js'
import { defaultJobsRoot, defaultStateDir } from './default-directories.js'
import type { ExecDefaults } from './defaults.js'
import { completeEnv } from './environment.js'
import { homes } from './homes.js'
import { ofPreset, planIsolation, planOuterIsolation } from './isolation.js'
import { withFile } from './isolation-file.js'
import { requireMounts } from './mounts.js'
import { requireLog } from './request-log.js'
import { inherit, stricter } from './strictness.js'
import { planWorkspace } from './workspace.js'

/** 8 MiB: a stream's reader already has the output, and expects bounded memory. */
const DEFAULT_STREAM_MAX_BUFFER_BYTES = 8 * 1024 * 1024

/** The engine's configuration except for the supervisor, which is found when the addon is loaded. */
export type SandboxConfig = Omit<NativeConfig, 'supervisor'>

/** A sandbox's options, checked. */
export interface SandboxPlan {
  config: SandboxConfig
  defaults: ExecDefaults
  logger: Logger | undefined
  /** The home directories that `~` stands for in rules. */
  homes: () => string[]
  /** The rules as given, with their functions. */
  rules: GivenRules | undefined
  /** The host commands. */
  commands: ReadonlyMap<string, HostCommand>
}

/**
 * Checks the options of `new Sandbox`, and captures this process's directory and environment.
 *
 * NACRE_ENGINE=plain and NACRE_CONTAINMENT=subreaper force the engine's fallbacks, for tests. So does
 * NACRE_ISOLATION=landlock, which the engine reads itself.
 */
export function planSandbox(options: unknown): SandboxPlan {
  return planChecked(readOptions(sandboxOptions, options, 'Sandbox'))
}

/** The same of options that have been checked. */
export function planChecked(given: OptionValues<typeof sandboxOptions>): SandboxPlan {
  const values = withDefaults(sandboxOptions, given)
  const env = completeEnv(values.env, values.extendEnv)
  const cwd = absolute(values.cwd ?? '.')
  if (values.shell !== undefined && !path.isAbsolute(values.shell))
    throw invalidOption(
      `shell must be an absolute path like '/bin/bash', not ${quote(values.shell)}: leave it out to use the bash on PATH`,
    )
  const places = () =>
    homes(env.values[env.names.indexOf('HOME')], values.env?.names.includes('HOME') === true, values.user)
  const file = values.isolationFile === undefined ? undefined : resolveFrom(cwd, values.isolationFile)
  const rules = file === undefined ? values.isolation : withFile(file, values.isolation)
  const isolation = rules && planOuterIsolation(rules, cwd, places(), file)
  const stateDir = values.stateDir === undefined ? defaultStateDir() : absolute(values.stateDir)
  return {
    config: {
      cwd,
      envNames: env.names,
      envValues:
        isolation === undefined ? env.values : covered(env.values, placeholdersOf(isolation.secrets)),
      shell: values.shell,
      surviveExit: values.surviveExit,
      stateDir,
      keep: values.keep,
      jobsRoot: values.jobsRoot === undefined ? defaultJobsRoot() : absolute(values.jobsRoot),
      user: values.user,
      ownVariables: values.env?.names,
      limits: values.limits,
      budgetCpu: values.budget?.cpuMs,
      isolation,
      workspace: values.workspace && planWorkspace(values.workspace, { cwd, stateDir, keep: values.keep }),
      engine: process.env.NACRE_ENGINE === 'plain' ? 'plain' : undefined,
      containment: process.env.NACRE_CONTAINMENT === 'subreaper' ? 'subreaper' : undefined,
      ...(values.commands && {
        commandNames: [...values.commands.keys()],
        // Another user may not have access to this user's directory.
        commandsRoot: values.user === undefined ? stateDir : os.tmpdir(),
      }),
      log: values.logger !== undefined,
    },
    defaults: {
      timeout: values.timeout,
      maxBuffer: values.maxBuffer,
      streamMaxBuffer: given.maxBuffer ?? DEFAULT_STREAM_MAX_BUFFER_BYTES,
      killSignal: values.killSignal,
      forceKillAfterDelay: values.forceKillAfterDelay,
    },
    logger: values.logger,
    homes: places,
    rules,
    commands: values.commands ?? new Map(),
  }
}

/** What sessions inherit from their sandbox. */
export interface SessionBase {
  /** The absolute directory where sessions start. */
  cwd: string
  homes: () => string[]
  isolation: NativeIsolation | undefined
  /** The sandbox's environment at the start. */
  env: { names: readonly string[]; values: readonly string[] }
}

/** Translates a session's options for the boundary. Paths in its rules are relative to the sandbox's directory. */
export function planSession(
  values: OptionValues<typeof sessionOptions>,
  base: SessionBase,
  freshId: () => string,
): NativeSession {
  const isolation = values.isolation && planSessionIsolation(values.isolation, base)
  const env = withSecrets(values.env, isolation, base)
  return {
    sessionId: values.id ?? freshId(),
    isolation,
    cwd: values.cwd === undefined ? undefined : resolveFrom(base.cwd, values.cwd),
    envNames: env?.names,
    envValues: env?.values,
    surviveExit: values.surviveExit,
    budgetCpu: values.budget?.cpuMs,
  }
}

/**
 * The variables of a session that has other secrets than its sandbox: those that it leaves out are unset, and the values of
 * those that it adds are replaced in what it inherits.
 */
function withSecrets(
  given: EnvLists | undefined,
  isolation: NativeIsolation | undefined,
  base: SessionBase,
): EnvLists | undefined {
  const inherited = base.isolation?.secrets ?? []
  const own = isolation?.secrets ?? inherited
  if (inherited.length + own.length === 0) return given
  const placeholders = placeholdersOf([...own, ...inherited])
  const { names, values } = base.env
  const changed = covered([...values], placeholders).flatMap((value, index): [string, string | null][] =>
    value === values[index] ? [] : [[names[index] ?? '', value]],
  )
  const lost = inherited.filter(({ name }) => own.every((secret) => secret.name !== name))
  const added = [...changed, ...lost.map(({ name }): [string, null] => [name, null])]
  return {
    names: [...added.map(([name]) => name), ...(given?.names ?? [])],
    values: [...added.map(([, value]) => value), ...covered(given?.values ?? [], placeholders)],
  }
}

/** The rules of a session: as given, and otherwise its sandbox's. */
function planSessionIsolation(all: GivenRules, { cwd, homes, isolation }: SessionBase): NativeIsolation {
  const mounts = isolation?.mounts ?? []
  requireMounts(all.filesystem?.mounts, mounts)
  const given = { ...all, filesystem: { ...all.filesystem, mounts: [] } }
  if (isolation === undefined) return planOuterIsolation(given, cwd, homes())
  const rules = completeRules({ bestEffort: isolation.bestEffort, learn: isolation.learn, ...given })
  const planned = planIsolation(rules, cwd, homes(), ofPreset(given), isolation.secrets)
  requireLog(planned.log, isolation)
  return {
    ...stricter(inherit(given, planned, isolation), isolation),
    ...{ mounts, rulesFile: isolation.rulesFile },
  }
}
