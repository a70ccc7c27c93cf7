/**
 * Bundles `lib/` into the `dist/` of the published package: the entry points of package.json, chunks for shared code, and
 * the dependencies of the client and the command line. So an installed nacre has no dependencies.
 *
 * The server for containers is a bundle of its own.
 *
 * The client is bundled twice. On Node and Bun it shares its code and its error classes with `nacre`. For browsers it is
 * one file that imports nothing, since the shared chunks import modules of Node.
 *
 * `#embedded` is not bundled: a runtime or a bundler chooses one of its two files, which are copied as compiled. Neither
 * are the optional peers: `@opentelemetry/api` must be the program's own instance, and the companion packages are loaded by
 * their verbs alone.
 */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { rolldown } from 'rolldown'
import { minifySync } from 'rolldown/utils'
import ts from 'typescript'
import { bundleInside } from './inside.mjs'

const EMBEDDED = ['addon/embedded', 'addon/not-embedded']

/** What `#host-copy` is. package.json names compiled files, which would be second copies of the modules that they import. */
const hostCopy = (root, name) => ({ alias: { '#host-copy': path.join(root, 'lib/sandbox', `${name}.ts`) } })

/** Writes the files and returns the bundled npm packages: names with their source directories. */
export async function bundle(root, manifest, output) {
  const files = await write(
    {
      input: Object.fromEntries(
        entries(manifest).map((name) => [name, path.join(root, 'lib', `${name}.ts`)]),
      ),
      platform: 'node',
      external: ['#embedded', ...Object.keys(manifest.peerDependencies)],
      resolve: hostCopy(root, 'host-copy'),
    },
    {
      dir: output,
      chunkFileNames: 'chunks/[name]-[hash].js',
      sourcemap: true,
      codeSplitting: { groups: groups(path.join(root, 'lib')) },
    },
  )
  await write(
    // A module of Node in it is a warning, and so an error.
    {
      input: { 'client.browser': path.join(root, 'lib/client.ts') },
      platform: 'browser',
      resolve: hostCopy(root, 'no-host-copy'),
    },
    // Tools for browsers warn about a source map without its sources.
    { dir: output, codeSplitting: false },
  )
  for (const name of EMBEDDED) transpile(root, output, name)
  const inside = await bundleInside(root, path.join(output, 'engine/inside.js'))
  return packagesOf(root, [...files, ...inside])
}

async function write(input, output) {
  const build = await rolldown({
    ...input,
    resolve: { ...input.resolve, extensionAlias: { '.js': ['.ts', '.js'] } },
    tsconfig: false,
    transform: { target: 'es2023' },
    onwarn: (warning) => {
      throw new Error(warning.message)
    },
  })
  const { output: files } = await build.write({
    ...output,
    format: 'esm',
    entryFileNames: '[name].js',
    keepNames: true,
    // `@__PURE__` is kept: without it, bundlers keep a `createRequire` that fails where a bundle has no URL.
    comments: { annotation: true, jsdoc: false, legal: false },
  })
  await build.close()
  for (const file of files)
    if (file.type === 'asset' && file.fileName.endsWith('.map')) slimMap(output.dir, file.fileName)
  return files
}

/**
 * Assigns a module to a chunk. Node takes about a millisecond per file, so the code that `nacre` imports is in two chunks:
 * the part that the client, which runs in browsers, also imports, and the rest. Each npm package has its own chunk, since
 * no source map is published for those.
 */
function groups(lib) {
  const reached = new Map()
  const reaches = (entry, id, context) => {
    if (!reached.has(entry)) reached.set(entry, reachable(path.join(lib, entry), context))
    return reached.get(entry).has(id)
  }
  const own = (id, context) => {
    if (reaches('client.ts', id, context)) return 'shared'
    return reaches('index.ts', id, context) ? 'native' : null
  }
  return [
    {
      debugName: 'packages',
      test: /node_modules/,
      name: (id) => packageOf(id)?.name.replace('/', '-') ?? null,
    },
    {
      debugName: 'own',
      test: (id) => id.startsWith(lib) && !/\/lib\/(client|index)\.ts$/.test(id),
      name: own,
    },
  ]
}

/** The modules that an entry point imports, directly or indirectly, before it runs. */
function reachable(entry, context) {
  const found = new Set([entry])
  for (const id of found)
    for (const imported of context.getModuleInfo(id)?.importedIds ?? []) found.add(imported)
  return found
}

/** Maps `dist/otel/index.js` of package.json to `lib/otel/index.ts`. */
function entries({ exports, bin }) {
  const files = [...Object.values(exports).map((entry) => entry.default), bin.nacre]
  return files.flatMap((file) => /^(?:\.\/)?dist\/(.*)\.js$/.exec(file ?? '')?.[1] ?? [])
}

/**
 * Keeps the positions and names of a source map, which stack traces need, and drops the source text, which would be a third
 * of the package. Maps of other packages are dropped completely.
 */
function slimMap(output, name) {
  const file = path.join(output, name)
  const map = JSON.parse(readFileSync(file, 'utf8'))
  const isOwn = map.sources.map((source) => !source.includes('node_modules'))
  if (!isOwn.includes(true)) {
    rmSync(file)
    return compact(file.replace(/\.map$/, ''))
  }
  const { sourcesContent: _text, ...kept } = map
  writeFileSync(file, JSON.stringify(kept))
}

/** Chunks of other packages, with the names that appear in a stack trace. */
function compact(file) {
  const text = readFileSync(file, 'utf8').replace(/\n\/\/# sourceMappingURL=.*\n?$/, '\n')
  const { code, errors } = minifySync(file, text, {
    module: true,
    compress: false,
    mangle: false,
    codegen: { removeWhitespace: true, legalComments: 'none' },
  })
  if (errors.length > 0) throw new Error(errors[0].message)
  writeFileSync(file, code)
}

function transpile(root, output, name) {
  const text = readFileSync(path.join(root, 'lib', `${name}.ts`), 'utf8')
  const { outputText } = ts.transpileModule(text, {
    compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 },
  })
  const file = path.join(output, `${name}.js`)
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, outputText)
}

function packagesOf(root, files) {
  const packages = new Map()
  for (const id of files.flatMap((file) => (file.type === 'chunk' ? file.moduleIds : []))) {
    const found = packageOf(id)
    if (found) packages.set(found.name, found.directory)
  }
  if (packages.size === 0) throw new Error(`no package was bundled from ${root}`)
  return packages
}

function packageOf(id) {
  const found = /^(.*\/node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(id)
  return found ? { name: found[2], directory: found[1] } : undefined
}
