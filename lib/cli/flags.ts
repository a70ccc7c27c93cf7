/**
 * Names of flags in messages. Errors of the API name its options; a user of the command line knows only flags.
 */
import type { Command } from 'commander'

/** Flags whose names differ from those of the API's options. */
const FLAGS: Record<string, string> = {
  allowedOrigins: 'allowOrigin',
  authorities: 'authority',
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
  requests: 'request',
  secrets: 'secret',
  stalledInterval: 'lock',
}

/** The first word of a message, as in `limits.memory must be`, and all words that only names can be, as in `tokenFile`. */
const NAMES = /^[a-z]\w*(?:\.\w+)*|\b(?:sandboxd\.)?[a-z]+[A-Z]\w*/g

/** A rule of `isolation` that can have a flag of its own, as in `isolation.network.secrets.TOKEN must be`. */
const RULE = /^isolation\.\w+\.(\w+)/

/** The message with flags and operands of a command in the place of options. */
export function withFlags(message: string, command: Command): string {
  const ruled = message.replace(RULE, (name, rule) => flagOf(rule, command) ?? name)
  return ruled.replace(/^(--[a-z-]+)\./, '$1 ').replace(NAMES, (name) => flagOf(name, command) ?? name)
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
