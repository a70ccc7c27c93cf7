/** The rules of a session, compared with its sandbox's: missing ones are inherited, looser ones refused. */
import { invalidOption } from '../../../base/errors.js'
import type { NativeIsolation, NativeProgram, NativeSecret } from '../../../boundary/index.js'
import type { GivenRules } from '../../../schema/isolation-rules.js'
import { isWithin } from './places.js'

/**
 * The planned rules of a session, with the sandbox's in place of those that it does not give. A preset gives all rules,
 * but does not open anything that the sandbox hides or protects.
 */
export function inherit(
  rules: GivenRules,
  planned: NativeIsolation,
  sandbox: NativeIsolation,
): NativeIsolation {
  const { preset, filesystem = {} } = rules
  const { network, allow, deny, ask, answerer, programs, secrets, authorities } = sandbox
  const lacks = (rule: unknown) => rule === undefined && preset === undefined
  const closed = (rule: unknown, own: string[], inherited: string[]) => {
    if (rule !== undefined) return own
    return preset === undefined ? inherited : [...own, ...inherited]
  }
  return {
    ...planned,
    ...(lacks(filesystem.read) && { read: sandbox.read }),
    ...(lacks(filesystem.write) && { write: sandbox.write }),
    ...(lacks(rules.network) && {
      ...{ network, allow, deny, ask, answerer, programs, secrets, authorities },
      requests: [],
      handlers: [],
    }),
    ...(lacks(rules.processes) && { ownProcesses: sandbox.ownProcesses }),
    hide: closed(filesystem.hide, planned.hide, sandbox.hide),
    protect: closed(filesystem.protect, planned.protect, sandbox.protect),
    privateCaches: planned.privateCaches || sandbox.privateCaches,
    // What the sandbox guards stays guarded, and git of a session cannot write where programs of the sandbox cannot.
    guarding: lacks(filesystem.write) || planned.guarding === sandbox.guarding ? sandbox.guarding : 'project',
  }
}

/**
 * The rules of a session, plus everything that the sandbox closes. Throws OptionError naming the first rule that is looser
 * than the sandbox's.
 */
export function stricter(session: NativeIsolation, sandbox: NativeIsolation): NativeIsolation {
  const looser = LOOSER.find(([, isLooser]) => isLooser(session, sandbox))
  if (looser !== undefined) {
    throw invalidOption(`isolation.${looser[0]} of a session must be as strict as the sandbox's, or stricter`)
  }
  const both = (own: string[], inherited: string[]) => [...new Set([...own, ...inherited])]
  return {
    ...session,
    hide: both(session.hide, sandbox.hide),
    protect: both(session.protect, sandbox.protect),
    deny: both(session.deny, sandbox.deny),
    log: sandbox.log,
    // Each list for a host applies.
    requests: [...session.requests, ...sandbox.requests],
    // The first for a host answers.
    handlers: [...session.handlers, ...sandbox.handlers],
    authorities: session.network === 'proxy' ? both(session.authorities, sandbox.authorities) : [],
  }
}

type Check = (session: NativeIsolation, sandbox: NativeIsolation) => boolean

const isCovered = (file: string, roots: string[]) => roots.some((root) => isWithin(file, root))

/**
 * Whether a session opens a tree that the sandbox closes. It stays closed if the session closes it too, or never opens it.
 */
const opens = (closed: string[], again: string[], opened: string[] | undefined) =>
  closed.some(
    (file) =>
      !isCovered(file, again) &&
      (opened === undefined || opened.some((root) => isWithin(file, root) || isWithin(root, file))),
  )

const LOOSER: ReadonlyArray<[rule: string, isLooser: Check]> = [
  [
    'filesystem.read',
    ({ read, write }, sandbox) => {
      if (sandbox.read === undefined) return false
      const roots = [...sandbox.read, ...sandbox.write]
      return read === undefined || [...read, ...write].some((file) => !isCovered(file, roots))
    },
  ],
  ['filesystem.write', ({ write }, sandbox) => write.some((file) => !isCovered(file, sandbox.write))],
  [
    'filesystem.hide',
    ({ hide, read, write }, sandbox) => opens(sandbox.hide, hide, read && [...read, ...write]),
  ],
  [
    'filesystem.protect',
    ({ protect, hide, write }, sandbox) => opens(sandbox.protect, [...protect, ...hide], write),
  ],
  ['network', (session, sandbox) => isNetworkLooser(session, sandbox)],
  [
    'network.programs',
    ({ network, programs }, sandbox) =>
      network === 'proxy' &&
      sandbox.network === 'proxy' &&
      programs.some((one) => reachesFurther(one, sandbox)),
  ],
  ['network.secrets', ({ secrets }, sandbox) => secrets.some((one) => goesFurther(one, sandbox.secrets))],
  [
    'network.authorities',
    ({ authorities }, { network, authorities: known }) =>
      network === 'proxy' && authorities.some((pem) => !known.includes(pem)),
  ],
  ['processes', ({ ownProcesses }, sandbox) => sandbox.ownProcesses && !ownProcesses],
  ['learn', ({ learn }, sandbox) => learn && !sandbox.learn],
  ['bestEffort', ({ bestEffort }, sandbox) => bestEffort && !sandbox.bestEffort],
]

const NETWORKS: ReadonlyArray<NativeIsolation['network']> = ['closed', 'proxy', 'open']

function isNetworkLooser({ network, allow, ask }: NativeIsolation, sandbox: NativeIsolation): boolean {
  if (NETWORKS.indexOf(network) !== NETWORKS.indexOf(sandbox.network)) {
    return NETWORKS.indexOf(network) > NETWORKS.indexOf(sandbox.network)
  }
  if (network !== 'proxy') return false
  const asksMore = ask !== undefined && sandbox.ask === undefined
  return asksMore || !isAllowed(allow, sandbox.allow)
}

/** Whether entries of a list cover these hosts. */
export const isAllowed = (allow: string[], known: string[]) =>
  allow.every((target) => known.some((entry) => allows(entry, target)))

/** Whether a program of a session, by the same name and files, reaches what it does not reach in the sandbox. */
function reachesFurther(
  { name, allow, files }: NativeProgram,
  { programs, allow: ofAll }: NativeIsolation,
): boolean {
  const known = programs.find((one) => one.name === name && one.files.join('\0') === files.join('\0'))
  return !isAllowed(allow, [...ofAll, ...(known?.allow ?? [])])
}

/** Whether a secret of the sandbox goes where it does not go there. */
function goesFurther(
  { name, value, function: own, hosts, places, programs }: NativeSecret,
  sandbox: NativeSecret[],
): boolean {
  const known = sandbox.find((one) => one.name === name && one.value === value && one.function === own)
  const isIn = (list: string[]) => (item: string) => list.includes(item)
  if (known === undefined) return false
  const isForOthers =
    known.programs.length > 0 && !(programs.length > 0 && programs.every(isIn(known.programs)))
  return isForOthers || !(hosts.every(isIn(known.hosts)) && places.every(isIn(known.places)))
}

/** Whether one entry of an allow-list covers another. */
function allows(known: string, target: string): boolean {
  const [host, port] = split(known)
  const [wanted, wantedPort] = split(target)
  const sameHost =
    host === wanted ||
    (host.startsWith('*.') && wanted.endsWith(host.slice(1)) && wanted.length > host.length - 1)
  return sameHost && (port === '*' || port === wantedPort)
}

function split(target: string): [host: string, port: string] {
  const colon = target.lastIndexOf(':')
  return [target.slice(0, colon), target.slice(colon + 1)]
}
