/** Arguments of tools: their JSON Schema, and the check against it. */
import type { ToolSchema } from './public.js'

/** What a schema says about an argument. */
export interface Argument {
  type: 'string' | 'integer' | 'boolean'
  description: string
  enum?: readonly string[]
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
}

export type Arguments = Record<string, Argument>
export type Values = Record<string, string | number | boolean | undefined>

/** An error that the model can mend. */
export class ToolError extends Error {
  readonly code: string

  constructor(message: string, code = 'INVALID_ARGUMENT') {
    super(message)
    this.code = code
  }
}

export const text = (description: string, limits: Partial<Argument> = {}): Argument => ({
  type: 'string',
  description,
  ...limits,
})

export const integer = (description: string, minimum: number, maximum: number): Argument => ({
  type: 'integer',
  description,
  minimum,
  maximum,
})

export const flag = (description: string): Argument => ({ type: 'boolean', description })

export const choice = (description: string, values: readonly string[]): Argument => ({
  type: 'string',
  description,
  enum: values,
})

export function schemaOf(properties: Arguments, required: string[]): ToolSchema {
  return { type: 'object', properties, required, additionalProperties: false }
}

/**
 * The values of a call. Takes digits in strings for numbers, as some models send them.
 *
 * @throws {ToolError} that names the argument and what it must be.
 */
export function read(schema: ToolSchema, input: unknown): Values {
  if (input !== undefined && (typeof input !== 'object' || input === null || Array.isArray(input))) {
    throw new ToolError('The arguments must be an object.')
  }
  const given: Record<string, unknown> = { ...input }
  const names = Object.keys(schema.properties)
  for (const name of Object.keys(given)) {
    if (!names.includes(name))
      throw new ToolError(`There is no argument "${name}". Arguments: ${names.join(', ')}.`)
  }
  const values: Values = {}
  for (const name of names) {
    const value = given[name]
    if (value !== undefined && value !== null)
      values[name] = readValue(name, value, schema.properties[name] as Argument)
    else if (schema.required.includes(name)) throw new ToolError(`The argument "${name}" is missing.`)
  }
  return values
}

function readValue(name: string, value: unknown, argument: Argument): string | number | boolean {
  const refuse = (rule: string): never => {
    throw new ToolError(`The argument "${name}" must be ${rule}.`)
  }
  if (argument.type === 'boolean') {
    if (typeof value === 'boolean') return value
    if (value === 'true' || value === 'false') return value === 'true'
    return refuse('true or false')
  }
  if (argument.type === 'integer') {
    const number = typeof value === 'string' && /^-?\d{1,15}$/.test(value) ? Number(value) : value
    const { minimum = -Infinity, maximum = Infinity } = argument
    if (typeof number === 'number' && Number.isInteger(number) && number >= minimum && number <= maximum)
      return number
    return refuse(`a whole number from ${minimum} to ${maximum}`)
  }
  if (typeof value !== 'string') return refuse('a string')
  if (argument.enum !== undefined && !argument.enum.includes(value))
    return refuse(`one of ${argument.enum.join(', ')}`)
  const { minLength = 0, maxLength = Infinity } = argument
  if (value.length < minLength || value.length > maxLength)
    refuse(`${minLength} to ${maxLength} characters long`)
  return value
}
