/**
 * The tiers of isolation that this machine has: with namespaces and with Landlock alone, as this user and, for root, as
 * an ordinary one. What a machine offers is determined once in a process, so a tier is a process.
 */
import { spawn } from 'node:child_process'
import { chmodSync, chownSync, copyFileSync, cpSync, mkdtempSync, rmSync } from 'node:fs'
import path from 'node:path'

export interface Tier {
  name: string
  uid?: number
  /** Mounts enforce the rules for files. */
  hasMounts: boolean
}

/** Any number that is no user's. */
export const ORDINARY_USER = 23_456

export const isRoot = process.getuid?.() === 0

export const tiers: Tier[] = [
  { name: 'namespaces', hasMounts: true },
  { name: 'Landlock alone', hasMounts: false },
  ...(isRoot
    ? [
        { name: 'user namespaces, as an ordinary user', uid: ORDINARY_USER, hasMounts: true },
        { name: 'Landlock alone, as an ordinary user', uid: ORDINARY_USER, hasMounts: false },
      ]
    : []),
]

const root = path.dirname(path.dirname(__dirname))

/** The build, the runtime and programs of a test in a directory that every user can read. */
export class Programs {
  readonly directory: string
  readonly #runtime: string
  readonly #temporary: string

  constructor(...files: string[]) {
    // An ordinary user may not be able to read the repository or the runtime.
    this.directory = mkdtempSync('/var/tmp/nacre-copy-')
    chmodSync(this.directory, 0o755)
    for (const name of ['dist', 'native', 'package.json'])
      cpSync(path.join(root, name), path.join(this.directory, name), { recursive: true })
    // Nor the temporary directory of this one. Below /tmp, since that is private where mounts enforce the rules.
    this.#temporary = mkdtempSync('/tmp/nacre-ordinary-')
    if (isRoot) chownSync(this.#temporary, ORDINARY_USER, ORDINARY_USER)
    for (const name of files) copyFileSync(path.join(__dirname, name), path.join(this.directory, name))
    this.#runtime = path.join(this.directory, path.basename(process.execPath))
    copyFileSync(process.execPath, this.#runtime)
  }

  /**
   * Runs `program MODULE`, with a task as JSON on standard input. Resolves to the JSON that it prints. `within`: the first words
   * of a command that root has to run.
   */
  run<Result>(tier: Tier, program: string, task: object, within: string[] = []): Promise<Result> {
    const becomes = within.length > 0 && tier.uid !== undefined
    const user = becomes ? ['setpriv', `--reuid=${tier.uid}`, `--regid=${tier.uid}`, '--clear-groups'] : []
    const own = [path.join(this.directory, program), path.join(this.directory, 'dist/index.js')]
    const [first = '', ...rest] = [...within, ...user, this.#runtime, ...own]
    const child = spawn(first, rest, {
      env: {
        ...process.env,
        HOME: '/var/tmp',
        NACRE_NATIVE: process.env.NACRE_NATIVE,
        ...(tier.uid !== undefined && { TMPDIR: this.#temporary }),
        ...(!tier.hasMounts && { NACRE_ISOLATION: 'landlock' }),
      },
      ...(tier.uid !== undefined && !becomes && { uid: tier.uid, gid: tier.uid }),
    })
    child.stdin.on('error', () => {})
    child.stdin.end(JSON.stringify(task))
    let text = ''
    let errors = ''
    child.stdout.setEncoding('utf8').on('data', (data) => {
      text += data
    })
    child.stderr.setEncoding('utf8').on('data', (data) => {
      errors += data
    })
    return new Promise((resolve, reject) => {
      child.on('close', (code) => {
        if (code === 0) resolve(JSON.parse(text))
        else reject(new Error(`${program} ended with ${code}: ${errors}`))
      })
    })
  }

  remove(): void {
    for (const directory of [this.directory, this.#temporary])
      rmSync(directory, { recursive: true, force: true })
  }
}
