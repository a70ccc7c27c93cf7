/** What was refused, which rule has refused it, and what would allow it. */
import type { NativeDenial, NativeFeedEvent, NativeRefusal } from '../../boundary/index.js'
import type { Denial } from '../../calls/index.js'

const NETWORK = 'isolation.network'
const FILESYSTEM = 'isolation.filesystem'
/** Longer paths of requests are cut. */
const LONGEST_PATH = 1000

/** A connection or a request that was refused. */
export function networkDenial(native: NativeDenial): Denial {
  const { target, cause, request, reason, program, pid, command } = native
  return {
    ...{ kind: cause === 'socket' ? 'unix' : 'network', target, ...ruleOf(native) },
    ...{ ...(request && { request }), ...(reason && { reason }) },
    ...{ ...(program && { program }), ...(pid && { pid }), ...(command && { command }) },
  }
}

function ruleOf({ target, cause, request, reason }: NativeDenial): Pick<Denial, 'rule' | 'fix'> {
  const listed = { option: `${NETWORK}.allow`, add: target }
  switch (cause) {
    case 'unlisted':
      return { rule: `${NETWORK}.allow`, fix: listed }
    case 'answer':
      return { rule: `${NETWORK}.ask`, fix: listed }
    case 'denied':
      return { rule: `${NETWORK}.deny` }
    case 'socket':
      // No list allows one.
      return { rule: 'isolation' }
    case 'address':
      return { rule: `${NETWORK}.allow` }
    case 'request': {
      if (reason !== 'rule' || request === undefined) return { rule: NETWORK }
      const option = `${NETWORK}.requests['${target.replace(/:443$/, '')}']`
      const isExact = !request.path.includes('*') && request.path.length < LONGEST_PATH
      return { rule: option, ...(isExact && { fix: { option, add: `${request.method} ${request.path}` } }) }
    }
  }
}

/** A file that a failed command has named, and that a rule has refused. */
export function fileDenial({ path: target, rule, tree }: NativeRefusal): Denial {
  switch (rule) {
    case 'read':
    case 'write': {
      const option = `${FILESYSTEM}.${rule}`
      return { kind: rule, target, rule: option, fix: { option, add: tree } }
    }
    case 'hide':
      return {
        kind: 'read',
        target,
        rule: `${FILESYSTEM}.hide`,
        fix: { option: `${FILESYSTEM}.hide`, remove: tree },
      }
    case 'protect':
      return {
        ...{ kind: 'write', target, rule: `${FILESYSTEM}.protect` },
        fix: { option: `${FILESYSTEM}.protect`, remove: tree },
      }
    case 'file':
      return { kind: 'write', target, rule: 'isolationFile' }
    case 'project':
      return { kind: 'write', target, rule: 'isolation.preset' }
  }
}

/** A key of git's config that the machine's file did not get. */
export const configDenial = (target: string): Denial => ({ kind: 'config', target, rule: 'isolation.preset' })

/** The denial of an event. */
export function denialOf(native: NativeFeedEvent): Denial {
  const { target = '', kind, denialCause: cause = 'unlisted', denialReason: reason } = native
  if (kind === 'refused') return fileDenial(native.refusal as NativeRefusal)
  // What a preset would protect, and what has appeared.
  if (kind === 'appeared') return { kind, target, rule: 'isolation.preset' }
  if (kind === 'withheld') return configDenial(target)
  const { request, program, pid, command } = native
  return networkDenial({ target, cause, request, reason, program, pid, command })
}
