/**
 * The kinds of parameters in paths and queries, which are text.
 */
import { kinds, OptionError } from 'nacre/internal'
import type { protocol } from 'nacre/internal/server'
import { Refusal } from './failure.js'
import type { Shape } from './request-json.js'

const WHOLE_NUMBER = /^\d{1,16}$/
const RULE = 'must be a whole number'

export const anyText = kinds.text(() => true, 'must be text')

/** The calls check the bounds. */
export const queryNumber: kinds.Kind<number> = {
  read: (value) => value as number,
  json: {
    schema: { type: 'string', pattern: WHOLE_NUMBER.source },
    rule: RULE,
    decode(text: string) {
      if (WHOLE_NUMBER.test(text)) return Number(text)
      throw new OptionError('INVALID_OPTION', RULE)
    },
  },
  bounds: 'a whole number',
}

export const queryFlag: kinds.Kind<boolean> = {
  read: (value) => value as boolean,
  json: {
    schema: { type: 'string', enum: ['true', 'false'] },
    rule: "must be 'true' or 'false'",
    decode: (text: string) => text === 'true',
  },
  bounds: 'true or false',
}

/** The cursor from which a client resumes. Throws VALIDATION_FAILED. */
export function cursorOf(lastEventId: string): number {
  if (WHOLE_NUMBER.test(lastEventId)) return Number(lastEventId)
  const issues = [{ path: 'Last-Event-ID', message: RULE }]
  throw new Refusal('VALIDATION_FAILED', `Last-Event-ID: ${RULE}`, { issues })
}

const inPaths = {
  sessionId: kinds.identifier,
  jobId: kinds.identifier,
  workspaceId: kinds.identifier,
  checkpointId: anyText,
  commandId: kinds.identifier,
  questionId: kinds.identifier,
  processId: { ...anyText, description: 'The id of a process, or `id~instance`.' },
  runId: anyText,
  archiveId: kinds.identifier,
  uploadId: anyText,
  recording: anyText,
  callerId: anyText,
  number: queryNumber,
}

/** The parameters of a path. */
export function paramsOf<Path extends string>(path: Path): Shape<protocol.ParamsOf<Path>> {
  const names = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name as keyof typeof inPaths)
  return {
    options: Object.fromEntries(names.map((name) => [name, inPaths[name]])),
    required: names,
    isOpen: false,
  }
}
