/** Companion packages: a program has them beside nacre, or not. */
import { invalidOption, type OptionError } from './errors.js'

/** Whether an import failed because the package itself is not installed. Another one that it needs may be missing instead. */
export function isNotInstalled(name: string, error: unknown): boolean {
  const { code, message } = error as NodeJS.ErrnoException
  return code === 'ERR_MODULE_NOT_FOUND' && message.includes(`'${name}`)
}

/** The error of `what`, which needs the package. */
export function notInstalled(what: string, name: string): OptionError {
  return invalidOption(`${what} needs ${name}: npm install ${name}`)
}
