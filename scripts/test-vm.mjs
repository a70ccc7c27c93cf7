/**
 * Runs the tests of virtual machines with QEMU's emulation: `npm run test:vm`, as root.
 *
 * The kernels are Debian's for clouds, and the one of `@nacre/kernel-x64`, which is built. Both are in a cache; nothing is
 * installed.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, renameSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { createApt, sources } from './apt.mjs'
import { CACHE } from './packages/cache.mjs'
import { buildKernel } from './packages/kernel.mjs'
import { main, Problem } from './packages/problem.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const directory = path.join(CACHE, 'vm-kernel')

await main(() => {
  if (process.arch !== 'x64') throw new Problem('Virtual machines are tested on x64 only.')
  const vitest = ['node_modules/vitest/vitest.mjs', 'run', '--project', 'vm', ...process.argv.slice(2)]
  try {
    execFileSync(process.execPath, vitest, {
      cwd: root,
      env: {
        ...process.env,
        NACRE_TEST_KERNEL: kernel(),
        NACRE_TEST_OWN_KERNEL: path.join(buildKernel(root), 'vmlinux'),
      },
      stdio: ['ignore', 'inherit', 'inherit'],
    })
  } catch (error) {
    if (error instanceof Problem) throw error
    throw new Problem('The tests with virtual machines failed; the reason is above.')
  }
})

/** The path of the kernel, whose modules are beside it. */
function kernel() {
  const boot = path.join(directory, 'root/boot')
  if (!existsSync(boot)) {
    const apt = createApt(directory, sources('bookworm'), ['amd64'])
    const name = /linux-image-\S+-cloud-amd64/.exec(apt.dependsOn('linux-image-cloud-amd64'))?.[0]
    if (name === undefined) throw new Problem('Debian has no kernel for clouds.')
    const unpacked = path.join(directory, 'unpacked')
    rmSync(unpacked, { recursive: true, force: true })
    apt.unpack([name], unpacked)
    for (const version of readdirSync(path.join(unpacked, 'lib/modules')))
      execFileSync('depmod', ['-b', unpacked, version])
    renameSync(unpacked, path.join(directory, 'root'))
  }
  const found = readdirSync(boot).find((name) => name.startsWith('vmlinuz-'))
  if (found === undefined) throw new Problem(`There is no kernel in ${boot}: remove ${directory}.`)
  return path.join(boot, found)
}
