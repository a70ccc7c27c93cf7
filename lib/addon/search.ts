/**
 * Finds the directory of a platform package.
 *
 * Where nacre is installed, its own package.json must declare the package, which is then resolved as an import of nacre
 * would be. In a bundle there is no such package.json: then only directories named `node_modules` are looked at, above
 * the program. Nothing is resolved by a name that is not declared: Bun would fetch it from the registry.
 */
import { fs, path, url } from '../base/builtin.js'
import { ADDON } from './directory.js'
import { manifestOf, packageRoot } from './package-root.js'

const { existsSync, realpathSync } = fs
const { fileURLToPath } = url

/** Directories that the program's own files are in. */
export function programDirectories(): string[] {
  // A bundler may have replaced or emptied either.
  const url: string | undefined = import.meta.url
  const here = url?.startsWith('file:') ? path.dirname(fileURLToPath(url)) : undefined
  const common = typeof __dirname === 'string' && path.isAbsolute(__dirname) ? __dirname : undefined
  const main = process.argv[1] === undefined ? undefined : path.dirname(realPath(process.argv[1]))
  return [...new Set([here, common, main])].filter((directory) => directory !== undefined)
}

/** The directory with the native part of a build in a clone; with NACRE_NATIVE=debug, of the debug build. */
export function findBuild(directories: string[]): string | undefined {
  const build = process.env.NACRE_NATIVE === 'debug' ? 'debug' : 'release'
  return directories
    .map((directory) => path.join(packageRoot(directory) ?? directory, 'native', build))
    .find((directory) => existsSync(path.join(directory, ADDON)))
}

/** Absolute path of an installed package, or undefined. */
export function findPackage(name: string, directories: string[]): string | undefined {
  const roots = directories.flatMap((directory) => packageRoot(directory) ?? [])
  const found =
    roots.length > 0
      ? roots.map((root) => resolveFrom(root, name))
      : directories.map((directory) => findAbove(name, directory))
  return found.find((directory) => directory !== undefined)
}

/** By the rules of the runtime, and of Yarn's Plug'n'Play. */
function resolveFrom(root: string, name: string): string | undefined {
  const { optionalDependencies, peerDependencies } = manifestOf(root) ?? {}
  if ((optionalDependencies?.[name] ?? peerDependencies?.[name]) === undefined) return undefined
  try {
    // Not imported: webpack would replace the call by a search in its own modules.
    const { createRequire } = process.getBuiltinModule('node:module')
    return path.dirname(createRequire(path.join(root, 'package.json')).resolve(`${name}/package.json`))
  } catch {
    return undefined
  }
}

/** By looking at directories alone. pnpm keeps the package where nacre really is. */
function findAbove(name: string, from: string): string | undefined {
  for (let directory = from; ; directory = path.dirname(directory)) {
    const modules = path.join(directory, 'node_modules')
    const hoisted = path.join(modules, name)
    if (existsSync(path.join(hoisted, 'package.json'))) return hoisted
    const root = realPath(path.join(modules, 'nacre'))
    if (manifestOf(root)?.name === 'nacre') return resolveFrom(root, name)
    if (directory === path.dirname(directory)) return undefined
  }
}

function realPath(file: string): string {
  try {
    return realpathSync(file)
  } catch {
    return file
  }
}
