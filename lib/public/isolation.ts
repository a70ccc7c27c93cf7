/** What the programs of a sandbox may read, write, reach and see. */

/** Which files programs may use. Paths are absolute, start with `~/`, or are relative to the sandbox's `cwd`. */
export interface FilesystemRules {
  /**
   * Readable trees. Default: 'all'. What programs need to start (/usr, /bin, /lib and a part of /etc) is always readable,
   * and so is what `write` names.
   */
  read?: 'all' | string[]
  /**
   * Writable trees, which must exist. Default: ['.']. A private directory for temporary files (TMPDIR), /dev/null and the
   * like, and the session's terminals are always writable.
   */
  write?: string[]
  /** Trees that look empty or missing, also below `read` and `write`. Default: []. */
  hide?: string[]
  /** Trees that are never writable, also below `write`. They must exist there. Default: []. */
  protect?: string[]
}

/**
 * Restricts everything that runs in a session: commands, background processes, services, terminals, and what follows an
 * `exit`, a crash or the supervisor's death. Rules apply to what a path names when the session starts.
 */
export interface IsolationRules {
  filesystem?: FilesystemRules
  /**
   * Hosts that programs may reach. Default: 'host', as this machine may. With `allow`, only HTTP and SOCKS connections
   * through a proxy, which HTTP_PROXY, HTTPS_PROXY and ALL_PROXY name, to hosts and ports like 'registry.npmjs.org:443',
   * '*.github.com:443' or '127.0.0.1:5432'.
   */
  network?: 'host' | 'none' | { allow: string[] }
  /** Processes that programs see and signal. Default: 'host'. 'own': only those of their session. */
  processes?: 'host' | 'own'
  /**
   * Whether to drop rules that this machine cannot enforce. Default: false: the first call rejects with
   * ISOLATION_UNSUPPORTED, and nothing has run.
   */
  bestEffort?: boolean
}

/**
 * Rules, or a preset:
 *
 * - 'workspace': reads everything but well-known secrets, writes `cwd`, has no network, sees its own processes
 * - 'workspace+network': the same with the network
 * - 'read-only': as 'workspace', and writes nothing
 */
export type Isolation = IsolationRules | 'workspace' | 'workspace+network' | 'read-only'

/** What enforces each kind of rule on this machine. */
export interface IsolationCapabilities {
  filesystem: 'namespace' | 'landlock' | 'none'
  network: 'namespace' | 'landlock+seccomp' | 'seccomp' | 'none'
  processes: 'namespace' | 'landlock' | 'none'
  /** Sentences about what is missing, and why. */
  notes: string[]
}

/** A connection that the rules for the network refused. */
export interface Denial {
  /** Host and port, like 'example.com:443'. */
  target: string
  rule: 'network'
}
