/**
 * The schemas that several routes share. They check the type of a value. nacre checks its bounds in the same place for
 * every caller, so the messages are the same.
 */
import { z } from '@hono/zod-openapi'
import { PROCESS_STATUSES } from '../requests/logs.js'
import { ID } from '../schema/names.js'
import { unknownOption } from '../schema/read.js'
import { Refusal } from './failure.js'

/** Faults that a refusal names. A body can have millions. */
export const MOST_FAULTS = 10

/** Refuses other properties, and suggests the nearest name. */
export function strictObject<S extends z.ZodRawShape>(shape: S): z.ZodObject<S, z.core.$strict> {
  const known = Object.keys(shape)
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? issue.keys
            .slice(0, MOST_FAULTS)
            .map((key) => unknownOption(key, known))
            .join('; ')
        : undefined,
  })
}

export const envelopeSchema = z
  .object({
    code: z.string(),
    message: z.string(),
    context: z.record(z.string(), z.unknown()),
    httpStatus: z.number().int(),
    timestamp: z.string(),
  })
  .openapi('Error')

export const encodingSchema = z.enum(['utf8', 'buffer'])

/** The message for a value that none of the alternatives accepts: zod has only "Invalid input". */
export function mustBe(what: string) {
  return {
    error: ({ input }: { input?: unknown }) =>
      input === undefined ? `is missing; it must be ${what}` : `must be ${what}`,
  }
}

/** Text, or bytes. */
export const dataSchema = z
  .union([z.string(), strictObject({ base64: z.base64() })], mustBe('text or bytes, like {"base64": "/w=="}'))
  .openapi('Data')

/** Not an array of zod, which would collect the faults of all items. */
export function stringList(error: (issue: { input?: unknown }) => string | undefined = () => undefined) {
  return z
    .custom<string[]>((value) => Array.isArray(value) && value.every((item) => typeof item === 'string'), {
      error: (issue) => error(issue) ?? 'must be a list of strings',
    })
    .openapi({ type: 'array', items: { type: 'string' } })
}

export const commandSchema = z
  .union(
    [z.string(), stringList()],
    mustBe('shell text or a list of arguments, like "ls -l" or ["ls", "-l"]'),
  )
  .openapi('Command')

export const signalSchema = z
  .union([z.string(), z.number()], mustBe('a signal, like "SIGTERM" or 15'))
  .openapi('Signal')

type EnvJson = Record<string, string | null>

/** null unsets. Not a record of zod, which leaves out a variable `__proto__`. */
export const envSchema = z
  .unknown()
  .superRefine((value, { addIssue }) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      addIssue({ code: 'custom', message: 'must be an object of variables' })
      return
    }
    const variables = value as Record<string, unknown>
    let faults = 0
    // Object.entries would first copy all of them, which takes longer than to parse them.
    for (const name in variables) {
      const item = variables[name]
      if (item === null || typeof item === 'string' || !Object.hasOwn(variables, name)) continue
      addIssue({ code: 'custom', path: [name], message: 'must be a string, or null to unset the variable' })
      if (++faults === MOST_FAULTS) return
    }
  })
  .openapi('Env', {
    type: 'object',
    additionalProperties: { type: ['string', 'null'] },
  }) as unknown as z.ZodType<EnvJson>

export const statusSchema = z.enum(PROCESS_STATUSES).openapi('ProcessStatus')

/** Text that a line contains, or a regular expression. */
export const patternSchema = z
  .union(
    [z.string(), strictObject({ source: z.string(), flags: z.string() })],
    mustBe('text or a regular expression, like {"source": "ready in \\\\d+", "flags": "i"}'),
  )
  .openapi('Pattern')

/** A number in a query string. */
export const queryNumber = z
  .string()
  .regex(/^\d{1,16}$/, 'must be a whole number')
  .transform(Number)

/** The cursor from which a client resumes. Throws VALIDATION_FAILED. */
export function cursorOf(lastEventId: string): number {
  const { success, data } = queryNumber.safeParse(lastEventId)
  if (success) return data
  const message = 'must be a whole number'
  const issues = [{ path: 'Last-Event-ID', message }]
  throw new Refusal('VALIDATION_FAILED', `Last-Event-ID: ${message}`, { issues })
}

/** A flag in a query string. */
export const queryFlag = z.enum(['true', 'false']).transform((text) => text === 'true')

/** An id. Only the document has its form: nacre checks it in the same place for every caller. */
export const idSchema = z.string().openapi({ pattern: ID.source })

export const sessionParams = z.object({ sessionId: idSchema })
export const processParams = z.object({
  processId: z.string().openapi({ description: 'The id of a process, or `id~instance`.' }),
})
export const jobParams = z.object({ jobId: idSchema })
export const runParams = z.object({ runId: z.string() })
