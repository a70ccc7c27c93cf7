/** The cluster of the tests, compiled: an API server, a controller and a router in this process, and real pods. */
import { mkdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const root = path.dirname(path.dirname(path.dirname(fileURLToPath(import.meta.url))))
const folder = path.join(root, 'packages/fleet/__test__/cluster')
const outfile = path.join(root, 'target/bench/cluster.mjs')

mkdirSync(path.dirname(outfile), { recursive: true })
const contents = ['cluster', 'api-server', 'pods'].map((name) => `export * from './${name}.js'`).join('\n')
await build({
  ...{ stdin: { contents, resolveDir: folder, loader: 'ts' }, outfile, bundle: true, logLevel: 'error' },
  ...{ platform: 'node', format: 'esm', packages: 'external' },
  banner: { js: `const __dirname = ${JSON.stringify(folder)}` },
})
/**
 * @type {typeof import('../../packages/fleet/__test__/cluster/cluster.js') &
 *   typeof import('../../packages/fleet/__test__/cluster/api-server.js') &
 *   typeof import('../../packages/fleet/__test__/cluster/pods.js')}
 */
const compiled = await import(outfile)
rmSync(outfile)

export const { ApiServer, Cluster, ProcessPods } = compiled
