/**
 * Builds the kernel of virtual machines, `@nacre/kernel-x64`, as a tarball in `target/packages`: `npm run build:kernel`.
 *
 * The source is Debian's. It and what compiles it are unpacked into a cache; nothing is installed. Needs gcc, make and bc.
 */
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { buildKernel } from './packages/kernel.mjs'
import { main } from './packages/problem.mjs'
import { pack, stageKernel } from './packages/stage.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

await main(() => {
  const output = path.join(root, 'target/packages')
  const staged = path.join(output, 'staged/kernel-x64')
  stageKernel(root, buildKernel(root), staged)
  const { file, size } = pack(staged, output)
  console.log(`${path.relative(root, file)}, ${(size / 1e6).toFixed(1)} MB packed`)
})
