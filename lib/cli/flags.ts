/**
 * Names of flags in messages. Errors of the API name its options; a user of the command line knows only flags.
 */
import type { Command } from 'commander'

/** Flags whose names differ from those of the API's options. */
const FLAGS: Record<string, string> = {
  allowedOrigins: 'allowOrigin',
  cursor: 'since',
  forceKillAfterDelay: 'grace',
  host: 'hostId',
  id: 'session',
  jobId: 'id',
  jobsRoot: 'root',
  limiter: 'limit',
  lockDuration: 'lock',
  name: 'queue',
  processName: 'name',
  stalledInterval: 'lock',
}

/** The first word of a message, as in `limits.memory must be`, and all words that only names can be, as in `tokenFile`. */
const NAMES = /^[a-z]\w*(?:\.\w+)*|\b(?:sandboxd\.)?[a-z]+[A-Z]\w*/g

/** The message with flags and operands of a command in the place of options. */
export function withFlags(message: string, command: Command): string {
  return message.replace(NAMES, (name) => flagOf(name, command) ?? name)
}

function flagOf(name: string, command: Command): string | undefined {
  const own = name === 'sandboxd.host' ? 'sandboxdHost' : name.replace(/^sandboxd\./, '').replace(/\..*/, '')
  const others = Object.hasOwn(FLAGS, own) ? [own, FLAGS[own]] : [own]
  for (const attribute of others) {
    const option = command.options.find((option) => option.attributeName() === attribute)
    if (option?.long != null) return option.long
    if (command.registeredArguments.some((operand) => operand.name() === attribute)) return `<${attribute}>`
  }
  return undefined
}
