/** Isolation rules: what the programs of a sandbox may read, write, reach and see. */

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
  /** Directory trees that are never writable, even within `write`. They must exist there. Default: []. */
  protect?: string[]
}

/**
 * Rules for everything that runs in a session: commands, background processes, services and terminals, also after an
 * `exit`, a crash or the supervisor's death. Paths are resolved when the session starts.
 *
 * The defaults are those of a sandbox without a preset. So any object, even `{}`, makes everything but `cwd` read-only. A
 * session inherits each rule that it omits from its sandbox.
 */
export interface IsolationRules {
  /** Rules to start from. Each other option replaces one of them. Default: none. */
  preset?: 'workspace' | 'workspace+network' | 'read-only'
  /** The files that programs may use. Default: the defaults of its members. */
  filesystem?: FilesystemRules
  /**
   * Hosts that programs may reach. Default: 'host', no restriction. `allow` lists hosts and ports like
   * 'registry.npmjs.org:443', '*.github.com:443' or '127.0.0.1:5432'. Programs reach them only by HTTP and SOCKS
   * through a proxy, which HTTP_PROXY, HTTPS_PROXY and ALL_PROXY name.
   */
  network?:
    | 'host'
    | 'none'
    | {
        /** Hosts and ports that the proxy lets through. */
        allow: string[]
      }
  /** Processes that programs can see and signal. 'own' means only those of their session. Default: 'host'. */
  processes?: 'host' | 'own'
  /**
   * Whether to drop rules that this machine cannot enforce. With false, the first call rejects with
   * ISOLATION_UNSUPPORTED before anything runs. Default: false.
   */
  bestEffort?: boolean
}

/**
 * Rules, or a preset:
 *
 * - 'workspace': can read everything except well-known secrets, write `cwd`, and see its own processes; has no network
 * - 'workspace+network': the same with the network
 * - 'read-only': the same as 'workspace', but cannot write
 */
export type Isolation = IsolationRules | 'workspace' | 'workspace+network' | 'read-only'

/** The mechanisms that enforce each kind of rule on this machine. */
export interface IsolationCapabilities {
  filesystem: 'namespace' | 'landlock' | 'none'
  network: 'namespace' | 'landlock+seccomp' | 'seccomp' | 'none'
  processes: 'namespace' | 'landlock' | 'none'
  /** Sentences about missing features and the reasons. */
  notes: string[]
}

/** A connection that the network rules refused. */
export interface Denial {
  /** Host and port, like 'example.com:443'. */
  target: string
  rule: 'network'
}
