/**
 * The errors for the script's refusals: the script reports a code and a word, and this table has the messages.
 */

import type { SandboxErrorCode } from 'nacre'
import { engineError } from 'nacre/internal'

/** Messages by code, or by code and word. `subject` is the job or directory concerned. */
const SENTENCES: Record<string, (subject: string, detail: string) => string> = {
  JOB_NOT_FOUND: (job) => `there is no job '${job}'; list the jobs to see their ids`,
  'JOB_NOT_FOUND damaged': (job) => `job '${job}' has a damaged meta.json`,
  'JOB_NOT_FOUND strange-output': (job) => `job '${job}' is damaged: its output.log is not a regular file`,
  JOB_ALREADY_EXISTS: (job) => `job '${job}' already exists; choose another id`,
  'JOB_RUNNING foreign': (job) => `job '${job}' was started by another package: cancel it with that package`,
  JOB_RUNNING: (job) => `job '${job}' is still running: cancel it first`,
  CWD_NOT_FOUND: () => 'the working directory cannot be entered',
  STATE_DIR_UNAVAILABLE: () => 'the jobs directory cannot be used; see jobsRoot',
  'STATE_DIR_UNAVAILABLE no-room': () => 'the jobs directory cannot be written: its disk may be full',
  'STATE_DIR_UNAVAILABLE not-ours': () =>
    'the directory belongs to another user or is a symlink; see jobsRoot',
  'LIMIT_UNSUPPORTED openFiles': () => 'the remote sandbox cannot set the limit openFiles',
  'SPAWN_FAILED missing-tool': (_, tool) => `the remote sandbox has no program ${tool}, which jobs need`,
  'SPAWN_FAILED killed': () => 'the supervisor of the job was killed',
  'ENGINE_ERROR elsewhere': (job) => `job '${job}' cannot be cancelled: it runs in another pid namespace`,
}

/** Throws SandboxError when one of the lines is a refusal. */
export function refuseIfTold(lines: readonly string[], subject: string): void {
  const refusal = lines.find((line) => line.startsWith('refused '))
  if (refusal === undefined) return
  const [, code = '', word = '', detail = ''] = refusal.split(' ')
  const sentence = SENTENCES[`${code} ${word}`] ?? SENTENCES[code]
  throw engineError(code as SandboxErrorCode, sentence?.(subject, detail))
}
