/** Isolation rules: what the programs of a sandbox may read, write, reach and see. */

import { invalidOption } from '../base/errors.js'
import { either, list, mapped, object, oneOf, quoted, text } from '../schema/constructors.js'
import { type CheckedNetwork, type GivenRules, PRESETS } from '../schema/isolation-rules.js'
import { type Kind, table } from '../schema/kind.js'
import { count } from '../schema/numbers.js'
import { quote } from '../schema/read.js'
import { list as listField, number, optional, reply, text as textField, wordOf } from '../schema/reply.js'
import { target } from '../schema/targets.js'
import { callback, flag } from '../schema/values.js'
import { type ProgramRules, programs } from './programs.js'
import { type Answer, type Question, type RequestLine, requestLine } from './questions.js'
import { handlers, type RequestHandler } from './request-handlers.js'
import { requests } from './request-rules.js'
import { authorities, type Secret, secrets } from './secrets.js'

/** The files that programs may use. Paths are absolute, start with `~/`, or are relative to the sandbox's `cwd`. */
export interface FilesystemRules {
  /**
   * Directory trees that programs may read. Default: 'all'. Paths that programs need to start (/usr, /bin, /lib and
   * parts of /etc) and the trees in `write` are always readable.
   */
  read?: 'all' | string[]
  /**
   * Directory trees that programs may write. They must exist. Default: ['.']. A private directory for temporary files
   * (TMPDIR), devices like /dev/null, and the session's terminals are always writable.
   */
  write?: string[]
  /**
   * Directory trees that appear empty or missing, even within `read` and `write`. Default: well-known secrets, like
   * ~/.ssh. A list replaces them.
   */
  hide?: string[]
  /**
   * Directory trees that are never writable, even within `write`. They must exist there. With a preset, they add to what programs
   * of the machine run later, like .git/hooks and .vscode, and an empty list protects nothing. Default: nothing else.
   */
  protect?: string[]
  /**
   * Directories that programs see at another place, and can write. What the machine has at that place is invisible. The
   * other lists name the machine's own files, and hold wherever a mount shows them. Without mount namespaces, the first
   * call rejects with ISOLATION_UNSUPPORTED, even with `bestEffort`. A session has the mounts of its sandbox. Default: [].
   */
  mounts?: FilesystemMount[]
}

/** A directory that programs see at another place. */
export interface FilesystemMount {
  /** The absolute path of an existing directory of the machine, without symlinks. */
  source: string
  /**
   * The absolute path where programs see it, like '/home/user'. It need not exist. It must not be '/', inside /proc, /dev
   * or /sys, or inside another target.
   */
  target: string
}

/** Keeps all paths, with links and homes resolved, below the supervisor's limit of 16 MiB. */
const MAX_ITEMS = 200
/** PATH_MAX of Linux. */
const MAX_PATH_LENGTH = 4095

const path = mapped(
  text((path) => path !== '' && !path.includes('\0'), 'must be a path'),
  (path, name) => {
    if (path.length <= MAX_PATH_LENGTH) return path
    throw invalidOption(`${name} must be at most ${MAX_PATH_LENGTH} characters long`)
  },
)

const paths = list(path, MAX_ITEMS, {
  rule: 'must be a list of paths',
  excess: `must have at most ${MAX_ITEMS} paths`,
  bounds: `at most ${MAX_ITEMS} paths`,
})

const readable = either(
  oneOf(['all']),
  (value) => value === 'all',
  paths,
  `'all', or at most ${MAX_ITEMS} paths`,
)

const place = mapped(path, (path, name) => {
  if (path.startsWith('/')) return path
  throw invalidOption(`${name} must be an absolute path, not ${quote(path)}`)
})

export const mountOptions = table<FilesystemMount>()({ source: place, target: place })

/** Each mount takes some system calls at the start of each session. */
const MAX_MOUNTS = 32

export const filesystemOptions = table<FilesystemRules>()({
  read: { ...readable, default: 'all' },
  write: paths,
  hide: paths,
  protect: paths,
  mounts: list(object(mountOptions, ['source', 'target']), MAX_MOUNTS, {
    rule: 'must be a list of mounts like { source, target }',
    excess: `must have at most ${MAX_MOUNTS} mounts`,
    bounds: `at most ${MAX_MOUNTS} like { source, target }`,
  }),
})

/**
 * Rules for everything that runs in a session: commands, background processes, services and terminals, also after an
 * `exit`, a crash or the supervisor's death. Paths are resolved when the session starts.
 *
 * The defaults are those of a sandbox without a preset. So any object, even `{}`, makes everything but `cwd` read-only. A
 * session inherits each rule that it omits from its sandbox.
 */
export interface IsolationRules {
  /**
   * Rules to start from. Each other option replaces one of them. With a preset, variables like npm_config_cache lead the caches
   * of package managers and compilers to a private place of the project, unless they are set. Default: none.
   */
  preset?: 'workspace' | 'workspace+network' | 'read-only'
  /** The files that programs may use. Default: the defaults of its members. */
  filesystem?: FilesystemRules
  /**
   * Hosts that programs may reach. Default: 'host', no restriction. `allow` lists hosts and ports like
   * 'registry.npmjs.org:443', '*.github.com:443' or '127.0.0.1:5432'. Programs reach them only by TCP through
   * a proxy, which HTTP_PROXY, HTTPS_PROXY and ALL_PROXY name. With a network namespace, it also serves programs that ignore
   * these variables.
   */
  network?: 'host' | 'none' | NetworkRules
  /** Processes that programs can see and signal. 'own' means only those of their session. Default: 'host'. */
  processes?: 'host' | 'own'
  /**
   * Whether to drop rules that this machine cannot enforce. With false, the first call rejects with
   * ISOLATION_UNSUPPORTED before anything runs. Default: false.
   */
  bestEffort?: boolean
  /**
   * Whether nacre looks at each call by which a program opens, creates, changes, removes or executes a file, so that the
   * `denials` of a command have exactly the files that the rules refused, and to which programs, even if it prints nothing.
   * Each call takes about 20 µs longer. Not for durable jobs. A sandbox's also holds for its sessions. Default: false, `denials` have the files that a
   * failed command names.
   */
  explain?: boolean
  /**
   * Whether the rules refuse nothing: `denials` of a command have what they would refuse, each file once in a session. Only
   * system calls that no isolated program has are refused. Connections go through the proxy unless `network` is 'host'. Without
   * what observes programs, the first call rejects with ISOLATION_UNSUPPORTED, even with `bestEffort`. A durable job enforces the
   * rules. Not in `isolationFile`. Default: false.
   */
  learn?: boolean
}

/** The hosts that programs may reach. */
export interface NetworkRules {
  /** Hosts and ports that the proxy lets through. */
  allow: string[]
  /**
   * Hosts and ports that it refuses, even within `allow` and whatever an answer says. An address refuses all names that lead
   * to it; a name refuses that name alone. A session adds to the list of its sandbox. Default: [].
   */
  deny?: string[]
  /**
   * Whether a connection to a host of neither list waits for an answer. It is refused after `askTimeout`, and at once while 16
   * questions of its session are open or 32 connections wait. {@link Sandbox.questions} and the event `asked` have the
   * questions, and {@link Sandbox.answer} answers them. A function is called with each question and gives the answer; if it
   * throws, the connection is refused. It works only in this process, not with a `SandboxClient`. A session can have a function
   * of its own. A name that an answer allows cannot lead to a private network. Nothing is asked for loopback and link-local
   * addresses and for metadata services. Default: false.
   */
  ask?: boolean | ((question: Question) => Answer | Promise<Answer>)
  /** Milliseconds that a question waits for its answer, 1 to 600000. Default: 60000. */
  askTimeout?: number
  /**
   * Hosts that single programs may reach, by the name of the program: `{ git: { allow: ['github.com:443'] } }`. Needs network
   * namespaces: otherwise the first call rejects with ISOLATION_UNSUPPORTED, even with `bestEffort`, as it does with `learn` or for
   * a program whose place another could take. Programs of the session cannot use debuggers then. Default: none.
   */
  programs?: Record<string, ProgramRules>
  /**
   * Values that programs use but never see, by the name of a variable. The variable has a placeholder of the same form, and
   * requests to the hosts of the secret get the value in its place. Connections to these hosts are allowed, and decrypted by
   * nacre. A session can leave secrets out. Default: none.
   */
  secrets?: Record<string, Secret>
  /**
   * The requests that programs may send to a host, by its name and, if it is not 443, its port:
   * `{ 'api.github.com': ['GET,HEAD /repos/me/**', 'ask POST /gists'] }`. A rule has `deny` or `ask` or neither, methods
   * or `*`, and a path, in which `*` is a part without a slash and `**` any text. The first rule that matches decides; a request
   * that none matches is refused with 403, which says what is allowed. `ask` needs the option `ask`. Connections to these hosts
   * are allowed, and decrypted by nacre. A session's rules apply in addition to its sandbox's. Default: none.
   */
  requests?: Record<string, string[]>
  /**
   * Functions of this program that answer the requests to a host, in place of it, by its name and, if it is not 443, its port:
   * `{ 'api.example.com': () => Response.json({ mocked: true }) }`. They take `Request` and return `Response` of the Fetch API.
   * Connections to these hosts are allowed, and decrypted by nacre; `requests` and `ask` apply first. Not with a `SandboxClient`.
   * A session's handlers come before those of its sandbox. Default: none.
   */
  handle?: Record<string, RequestHandler>
  /**
   * Certificates of more authorities as PEM, like a company's own: for the hosts of secrets, and for programs. Default: none.
   */
  authorities?: string[]
  /**
   * A file that gets a line of JSON for each request to a host with a secret or rules: the members of the event `request`, with the
   * time. The path is absolute, starts with `~/`, or is relative to the sandbox's `cwd`, and must be outside of what programs may
   * write; they do not see the file. At 64 MiB, it is renamed to the same name with `.1`. Not with a `SandboxClient`. Default: none.
   */
  log?: string
}

const targets = list(target, MAX_ITEMS, {
  rule: `must be a list of at most ${MAX_ITEMS} hosts`,
  bounds: `at most ${MAX_ITEMS} like 'example.com:443' or '*.example.com:443'`,
})

export const networkOptions = table<NetworkRules>()({
  allow: targets,
  deny: targets,
  ask: {
    ...either(flag, (value) => typeof value !== 'function', callback, 'true, false or a function'),
    json: flag.json,
    default: false,
  },
  askTimeout: { ...count(1, 600_000, 'ms'), default: 60_000 },
  programs,
  secrets,
  requests,
  handle: handlers,
  authorities,
  // A client of a server could have any file written to.
  log: { read: path.read, bounds: 'a path outside of `write`' },
})

/** Some members alone read as if they were complete. */
const ALONE = [
  ['ask', 'to ask for every host, write { allow: [], ask: true }'],
  ['programs', 'for the hosts of the programs alone, write { allow: [], programs }'],
  ['secrets', 'for the hosts of the secrets alone, write { allow: [], secrets }'],
  ['requests', 'for these hosts alone, write { allow: [], requests }'],
  ['handle', 'for these hosts alone, write { allow: [], handle }'],
] as const

/** Checks what the members have to do with one another. */
function together(rules: Kind<NetworkRules, CheckedNetwork>): Kind<NetworkRules, CheckedNetwork> {
  return {
    ...rules,
    read(value, name) {
      const given = value as Partial<NetworkRules> | null
      const hint = ALONE.find(([member]) => given?.[member] && given.allow === undefined)?.[1]
      if (hint !== undefined) throw invalidOption(`${name}.allow is required: ${hint}`)
      const checked = rules.read(value, name)
      const known = checked.programs ?? {}
      for (const [key, { programs = [] }] of Object.entries(checked.secrets ?? {}))
        if (!programs.every((program) => Object.hasOwn(known, program)))
          // It shows none of them: secrets are often given in the wrong place.
          throw invalidOption(
            `${name}.secrets.${key}.programs must have keys of ${name}.programs alone: add what is missing there`,
          )
      const asking = Object.values(checked.requests ?? {})
        .flat()
        .find((rule) => rule.startsWith('ask '))
      if (asking === undefined || (checked.ask ?? false) !== false) return checked
      throw invalidOption(
        `${name}.ask is required for the rule '${asking}': set it to true or a function, or write another rule`,
      )
    },
  }
}

const network = either(
  oneOf(['host', 'none'], "must be 'host', 'none' or { allow }"),
  (value) => typeof value !== 'object' || value === null || Array.isArray(value),
  // The table has any function, and its answers are checked.
  together(object(networkOptions, ['allow']) as Kind<NetworkRules, CheckedNetwork>),
  "'host', 'none' or { allow }",
)

export const isolationOptions = table<IsolationRules>()({
  preset: oneOf(PRESETS, `must be one of ${quoted(PRESETS)}`),
  filesystem: object(filesystemOptions, [], 'an object of lists'),
  network: { ...network, default: 'host' },
  processes: { ...oneOf(['host', 'own']), default: 'host' },
  bestEffort: { ...flag, default: false },
  explain: { ...flag, default: false },
  learn: { ...flag, default: false },
})

/**
 * Rules, or a preset:
 *
 * - 'workspace': can read everything except well-known secrets, write `cwd` except what programs of the machine run later, and
 *   see its own processes; has no network. The caches of tools are private.
 * - 'workspace+network': the same with the network
 * - 'read-only': the same as 'workspace', but cannot write
 */
export type Isolation = IsolationRules | 'workspace' | 'workspace+network' | 'read-only'

const rules: Kind<Isolation, GivenRules> = either(
  mapped(oneOf(PRESETS, `must be rules or one of ${quoted(PRESETS)}`), (preset) => ({ preset })),
  (value) => typeof value === 'string',
  object(isolationOptions),
  `${quoted(PRESETS)} or rules`,
)

/** Rules or a preset. They stay incomplete, since a session inherits what is missing. */
export const isolation: Kind<Isolation, GivenRules> = {
  ...rules,
  read(value, name) {
    if (typeof value !== 'boolean') return rules.read(value, name)
    const remedy = value
      ? `choose one of ${quoted(PRESETS)}, or give rules`
      : 'leave it out for no restrictions'
    throw invalidOption(`${name} must be rules or the name of a preset, not ${value}: ${remedy}`)
  },
}

/** The mechanisms that enforce each kind of rule on this machine. */
export interface IsolationCapabilities {
  filesystem: 'namespace' | 'landlock' | 'none'
  network: 'namespace' | 'landlock+seccomp' | 'seccomp' | 'none'
  processes: 'namespace' | 'landlock' | 'none'
  /** Sentences about missing features and the reasons. */
  notes: string[]
  /** How programs learn to trust what decrypts connections for secrets: by mounted files and variables, or variables alone. */
  trust: 'mounted' | 'variables'
}

export const isolationCapabilities = reply<IsolationCapabilities>({
  filesystem: wordOf('namespace', 'landlock', 'none'),
  network: wordOf('namespace', 'landlock+seccomp', 'seccomp', 'none'),
  processes: wordOf('namespace', 'landlock', 'none'),
  notes: listField(textField),
  trust: wordOf('mounted', 'variables'),
})

/**
 * Why a decrypted request or connection was refused:
 *
 * - 'rule': no rule of {@link NetworkRules.requests} allows the request, or it was asked for and not allowed
 * - 'host': it names another host than its connection
 * - 'tls-name': TLS names another host than the connection, or none
 * - 'not-http': it is not HTTP, or not encrypted to a host with a secret
 * - 'untrusted': the program does not trust nacre's authority, as it has pinned another
 */
export type DenialReason = 'rule' | 'host' | 'tls-name' | 'not-http' | 'untrusted'

/**
 * What was refused:
 *
 * - 'network': a connection or a request
 * - 'unix': a connection to a Unix socket outside of the session
 * - 'read', 'write': a file
 * - 'syscall': a system call that no rule allows, like 'mount', 'unshare(CLONE_NEWUSER)' or 'socket(AF_PACKET, SOCK_RAW)'
 * - 'limit': what 'openFiles' or 'pids' of {@link SandboxOptions.limits} has ended, as a failed command says. `pids`: only
 *   where no control group counts them.
 * - 'config': a key of git's config that the machine's file did not get
 * - 'appeared': what a preset would protect appeared while a session lived. It was not refused. In events only.
 */
export type DenialKind = 'network' | 'unix' | 'read' | 'write' | 'syscall' | 'limit' | 'config' | 'appeared'

/** What to change in an option so that it allows what was refused. */
export interface DenialFix {
  /** A list of the options, like 'isolation.filesystem.write'. */
  option: string
  /** What the list has to have. */
  add?: string | undefined
  /** What the list must not have. */
  remove?: string | undefined
}

/** What was refused, by which rule, and what would allow it. */
export interface Denial {
  kind: DenialKind
  /** Host and port, like 'example.com:443', a path, '@' and an abstract name, a system call, or a key, like 'core.fsmonitor'. */
  target: string
  /** The option that has refused it, like 'isolation.network.allow'. */
  rule: string
  /** Absent where no change of one list would allow it. */
  fix?: DenialFix | undefined
  /** The request, if it was not the whole connection. */
  request?: RequestLine | undefined
  /** Absent where the lists of hosts, or an answer, have refused a connection. */
  reason?: DenialReason | undefined
  /** The file that the process executed which was refused something. Absent where that is not known, like `pid` and `command`. */
  program?: string | undefined
  /** The pid of that process, as the host sees it. If several wanted the same, the first. */
  pid?: number | undefined
  /** Its arguments, at most 200 bytes. The program can change them. */
  command?: string | undefined
}

/** What {@link Session.why} is asked about. */
export const wanted = text(
  (wanted) => wanted !== '' && !wanted.includes('\0') && wanted.length <= MAX_PATH_LENGTH,
  "must be a path, or a host and a port like 'example.com:443'",
)

export const denial = reply<Denial>({
  kind: wordOf<DenialKind>('network', 'unix', 'read', 'write', 'syscall', 'limit', 'config', 'appeared'),
  target: textField,
  rule: textField,
  fix: optional(
    reply<DenialFix>({ option: textField, add: optional(textField), remove: optional(textField) }),
  ),
  request: optional(requestLine),
  reason: optional(wordOf<DenialReason>('rule', 'host', 'tls-name', 'not-http', 'untrusted')),
  program: optional(textField),
  pid: optional(number),
  command: optional(textField),
})
