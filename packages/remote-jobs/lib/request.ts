/**
 * The request of a start: one run of bytes in four parts, which the script splits by their lengths.
 */
import { type kinds, path, type plans } from 'nacre/internal'
import { mergedEnv } from './environment.js'

/** The defaults that all jobs of a backend share. */
export interface RemoteDefaults {
  root: string
  cwd: string | undefined
  env: kinds.EnvLists | undefined
  /** Milliseconds between SIGTERM and SIGKILL. */
  graceMs: number
}

export interface Request {
  payload: Buffer
  /** Lengths of the parts: words, command, standard input, and the part of meta.json that is known here. */
  sizes: [number, number, number, number]
}

const VERSION = 1

/** Builds the request. `mark` distinguishes the processes of this job from all others. */
export function buildRequest(
  jobId: string,
  plan: plans.JobStartPlan,
  mark: string,
  defaults: RemoteDefaults,
): Request {
  const parts: [Buffer, Buffer, Buffer, Buffer] = [
    Buffer.from(words(plan, mark, defaults)),
    Buffer.from(plan.command.text ?? ''),
    Buffer.from(plan.input ?? ''),
    Buffer.from(meta(jobId, plan, mark, defaults)),
  ]
  const sizes = parts.map(({ length }) => length) as Request['sizes']
  return { payload: Buffer.concat(parts), sizes }
}

/** A file that the script reads as shell: the directory, and the arguments of env(1), each quoted. */
function words({ command, cwd, env }: plans.JobStartPlan, mark: string, defaults: RemoteDefaults): string {
  const changes = mergedEnv(defaults.env, env)
  const list = [
    ...changes.flatMap(([name, value]) => (value === null ? ['-u', name] : [])),
    ...changes.flatMap(([name, value]) => (value === null ? [] : [`${name}=${value}`])),
    `NACRE_JOB=${mark}`,
    ...(command.argv ?? []),
  ]
  return [
    `nacre_cwd=${quoted(directoryOf(cwd, defaults.cwd))}`,
    `nacre_kind=${command.text === undefined ? 'words' : 'text'}`,
    `set -- ${list.map(quoted).join(' ')}`,
    '',
  ].join('\n')
}

/** The end of meta.json, starting at a comma: the fields that only the script knows precede it. */
function meta(
  jobId: string,
  plan: plans.JobStartPlan,
  mark: string,
  { root, graceMs }: RemoteDefaults,
): string {
  const dir = path.posix.join(root, jobId)
  const { processName, timeout = 0, limits, shown } = plan
  const fields = {
    mark,
    jobId,
    processName,
    outputFile: `${dir}/output.log`,
    exitFile: `${dir}/exit`,
    dir,
    version: VERSION,
    command: shown,
    timeoutMs: timeout === 0 ? null : timeout,
    graceMs,
    limits: { memory: null, millicpus: null, pids: null },
    openFiles: limits?.openFiles ?? null,
    supervisor: 'script',
  }
  return `,${JSON.stringify(fields).slice(1)}`
}

function directoryOf(cwd: string | undefined, base: string | undefined): string {
  if (cwd === undefined) return base ?? ''
  return base === undefined ? cwd : path.posix.resolve(base, cwd)
}

/** Quotes a word: between single quotes, a shell leaves every byte unchanged. */
function quoted(word: string): string {
  return `'${word.replaceAll("'", "'\\''")}'`
}
