/** What was refused, which rule has refused it, and what would allow it. */
import type { NativeDenial } from '../../boundary/index.js'
import type { Denial } from '../../calls/index.js'

const NETWORK = 'isolation.network'
const FILESYSTEM = 'isolation.filesystem'
/** Longer paths of requests are cut. */
const LONGEST_PATH = 1000

/** The kind and the rule of what no change of a list allows. */
const CLOSED = {
  denied: ['network', `${NETWORK}.deny`],
  socket: ['unix', 'isolation'],
  address: ['network', `${NETWORK}.allow`],
  library: ['read', `${NETWORK}.programs`],
  file: ['write', 'isolationFile'],
  project: ['write', 'isolation.preset'],
  call: ['syscall', 'isolation'],
  'internet-socket': ['syscall', NETWORK],
  // What a preset would protect.
  config: ['config', 'isolation.preset'],
  appeared: ['appeared', 'isolation.preset'],
} as const

export function denialOf(native: NativeDenial): Denial {
  const { target, request, reason, program, pid, command } = native
  return {
    ...{ target, ...ruleOf(native) },
    ...{ ...(request && { request }), ...(reason && { reason }) },
    ...{ ...(program && { program }), ...(pid && { pid }), ...(command && { command }) },
  }
}

function ruleOf(native: NativeDenial): Pick<Denial, 'kind' | 'rule' | 'fix'> {
  const { target, cause, program, tree = '' } = native
  const listed = { option: `${NETWORK}.allow`, add: target }
  switch (cause) {
    case 'unlisted':
      return { kind: 'network', rule: `${NETWORK}.allow`, fix: listed }
    case 'program': {
      // Where no program has wanted it, any may have been meant.
      const option = `${NETWORK}.programs`
      const fix = program === undefined ? listed : { option: `${option}['${program}'].allow`, add: target }
      return { kind: 'network', rule: option, fix }
    }
    case 'answer':
      return { kind: 'network', rule: `${NETWORK}.ask`, fix: listed }
    case 'request':
      return { kind: 'network', ...ruleOfRequest(native) }
    case 'read':
    case 'write': {
      const option = `${FILESYSTEM}.${cause}`
      return { kind: cause, rule: option, fix: { option, add: tree } }
    }
    case 'hide':
    case 'protect': {
      const option = `${FILESYSTEM}.${cause}`
      return { kind: cause === 'hide' ? 'read' : 'write', rule: option, fix: { option, remove: tree } }
    }
    case 'limit':
      return { kind: 'limit', rule: `limits.${target}` }
    default: {
      const [kind, rule] = CLOSED[cause]
      return { kind, rule }
    }
  }
}

function ruleOfRequest({ target, request, reason }: NativeDenial): Pick<Denial, 'rule' | 'fix'> {
  if (reason !== 'rule' || request === undefined) return { rule: NETWORK }
  const option = `${NETWORK}.requests['${target.replace(/:443$/, '')}']`
  const isExact = !request.path.includes('*') && request.path.length < LONGEST_PATH
  return { rule: option, ...(isExact && { fix: { option, add: `${request.method} ${request.path}` } }) }
}
