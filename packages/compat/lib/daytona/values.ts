/** Members of requests, checked. All functions throw HttpError. */
import { HttpError } from '../failure.js'
import type { Message } from '../http.js'

/** Null counts as absent. */
export function optionalText(given: Message, name: string): string | undefined {
  const value = given[name] ?? undefined
  if (value === undefined || typeof value === 'string') return value
  throw new HttpError(400, `${name} must be a string`)
}

/** Not empty, and not only white space. */
export function text(given: Message, name: string): string {
  const value = optionalText(given, name) ?? ''
  if (value.trim() !== '') return value
  throw new HttpError(400, `${name} is required and must not be empty`)
}

export function listOfTexts(given: Message, name: string): string[] {
  const value = given[name] ?? []
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return value
  throw new HttpError(400, `${name} must be a list of strings`)
}

export function flag(given: Message, name: string): boolean {
  return given[name] === true
}

/** An integer. */
export function number(value: unknown, name: string, least: number, most: number): number {
  const integer = Number(value)
  if (value !== '' && value !== null && Number.isSafeInteger(integer) && integer >= least && integer <= most)
    return integer
  throw new HttpError(400, `${name} must be an integer from ${least} to ${most}`)
}

export function query(url: URL, name: string): string {
  const value = url.searchParams.get(name)
  if (value !== null && value !== '') return value
  throw new HttpError(400, `${name} is required`)
}

export function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    throw new HttpError(400, `the path has a wrong escape: ${segment}`)
  }
}
