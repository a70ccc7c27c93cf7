/** Debian's packages without installation: downloaded with package lists of their own, unpacked into a directory. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Problem } from './packages/problem.mjs'

const KEYS = '/usr/share/keyrings/debian-archive-keyring.gpg'
const MIRROR = 'http://deb.debian.org/debian'

/** The packages of a Debian release, with its security updates. */
export function sources(release) {
  return [
    `deb [signed-by=${KEYS}] ${MIRROR} ${release} main`,
    `deb [signed-by=${KEYS}] ${MIRROR}-security ${release}-security main`,
  ]
}

/**
 * Fetches the lists of these sources into a directory. The first of `architectures` applies to package names without one;
 * default: this machine's.
 */
export function createApt(directory, lines, architectures = []) {
  if (!existsSync(KEYS)) throw new Problem('This needs Debian, with the package debian-archive-keyring.')
  const lists = path.join(directory, 'lists')
  const archives = path.join(directory, 'archives')
  for (const name of [lists, archives]) mkdirSync(path.join(name, 'partial'), { recursive: true })
  writeFileSync(path.join(directory, 'status'), '')
  writeFileSync(path.join(directory, 'sources.list'), `${lines.join('\n')}\n`)
  const values = [
    ...architectures.slice(0, 1).map((name) => ['APT::Architecture', name]),
    ...architectures.map((name) => ['APT::Architectures::', name]),
    ['APT::Sandbox::User', 'root'],
    ['Acquire::Languages', 'none'],
    ['Dir::Etc::sourcelist', path.join(directory, 'sources.list')],
    ['Dir::Etc::sourceparts', '-'],
    ['Dir::State::Lists', lists],
    ['Dir::State::status', path.join(directory, 'status')],
    ['Dir::Cache', directory],
    ['Dir::Cache::archives', archives],
  ]
  const options = values.flatMap(([name, value]) => ['-o', `${name}=${value}`])
  const apt = (program, ...args) => run(archives, program, ['-qq', ...options, ...args])
  apt('apt-get', '--error-on=any', 'update')
  return {
    /** The dependencies of a package, as text. */
    dependsOn: (name) => apt('apt-cache', 'depends', name),
    /** The version of a package. */
    version: (name) =>
      /^Version: (.*)$/m.exec(apt('apt-cache', 'show', '--no-all-versions', name))?.[1] ?? '',
    /** Downloads the source of a package into a directory. */
    source(name, into) {
      run(into, 'apt-get', ['-qq', ...options, 'source', '--download-only', name])
    },
    /** Unpacks packages into a directory. Nothing in them is executed, and no dependencies are added. */
    unpack(packages, into) {
      apt('apt-get', 'download', ...packages)
      mkdirSync(into, { recursive: true })
      for (const name of readdirSync(archives).filter((entry) => entry.endsWith('.deb'))) {
        run(archives, 'dpkg-deb', ['-x', name, into])
        rmSync(path.join(archives, name))
      }
    },
  }
}

function run(cwd, program, args) {
  try {
    const options = { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], timeout: 600_000 }
    return execFileSync(program, args, options)
  } catch (error) {
    const reason = String(error.stderr ?? '')
      .split('\n')
      .find((line) => /^E: /.test(line))
    throw new Problem(`${program} failed: ${reason ?? error.message.split('\n')[0]}`)
  }
}
