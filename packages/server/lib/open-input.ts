/** Standard input that stays open for later requests, for commands and processes. */
import { kinds, OptionError } from 'nacre/internal'

export const openInput = {
  ...kinds.flag,
  description: 'Keeps standard input open for later requests to /input.',
}

/** The options with the input that the flag asks for. */
export function withInput<T extends object>(options: T, isOpen = false): T & { input?: 'pipe' } {
  if (!isOpen) return options
  if (Object.hasOwn(options, 'input'))
    throw new OptionError('INVALID_OPTION', 'input and openInput exclude each other')
  return { ...options, input: 'pipe' }
}
