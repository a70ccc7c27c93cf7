/**
 * Bundles the server that `openSandbox` starts in containers into `dist/engine/inside.js`: nacre and @nacre/server in one file,
 * since a container has no node_modules.
 */
import path from 'node:path'
import { rolldown } from 'rolldown'

/** Where the packages find each other: their sources. */
const MODULES = {
  'nacre/internal/client': 'lib/backends/http/internal.ts',
  'nacre/internal/server': 'lib/internal-server.ts',
  'nacre/internal': 'lib/internal.ts',
  nacre: 'lib/index.ts',
}

/** The server copies no files of its machine. */
const HOST_COPY = { '#host-copy': 'lib/sandbox/no-host-copy.ts' }

/** Writes the file, and returns the output of rolldown. */
export async function bundleInside(root, file) {
  const build = await rolldown({
    input: path.join(root, 'packages/server/lib/inside.ts'),
    platform: 'node',
    external: ['@opentelemetry/api', /^@nacre\//],
    resolve: {
      extensionAlias: { '.js': ['.ts', '.js'] },
      alias: Object.fromEntries(
        Object.entries({ '#embedded': 'lib/addon/not-embedded.ts', ...HOST_COPY, ...MODULES }).map(
          ([name, source]) => [name, path.join(root, source)],
        ),
      ),
    },
    tsconfig: false,
    transform: { target: 'es2023' },
    onwarn: (warning) => {
      throw new Error(warning.message)
    },
  })
  const { output } = await build.write({
    file,
    format: 'esm',
    codeSplitting: false,
    keepNames: true,
    minify: true,
    comments: false,
  })
  await build.close()
  return output
}
