/**
 * Builds the published packages as tarballs in `target/packages`.
 *
 *   node scripts/build-packages.mjs [TARGET... | all | main | --debug]
 *
 * With --debug, the package of this machine has the debug build of `native/debug` in it, and all tarballs are in
 * `target/packages-debug`: for tests of the installation, without the minutes that a release build takes.
 *
 * A target is `linux-x64-gnu`, `linux-x64-musl`, `linux-arm64-gnu` or `linux-arm64-musl`; the default is this machine's.
 * `nacre` itself and its companion packages are always built; `main` builds nothing else. The package for containers on a Mac
 * is built when both targets of its processor are.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { companions } from './packages/companions.mjs'
import { compile } from './packages/compile.mjs'
import { bundlePage } from './packages/page.mjs'
import { main } from './packages/problem.mjs'
import {
  compileTypeScript,
  pack,
  stageCompanion,
  stageContainer,
  stageDebugPlatform,
  stageMain,
  stagePlatform,
} from './packages/stage.mjs'
import { CONTAINERS, chosenTargets, containerName, hostTarget, packageName } from './packages/targets.mjs'
import { findToolchain } from './packages/toolchain.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const isDebug = process.argv.includes('--debug')
const output = path.join(root, 'target', isDebug ? 'packages-debug' : 'packages')

await main(async () => {
  // Checks all toolchains first: a missing one is reported before anything is compiled.
  const words = process.argv.slice(2)
  const toolchains = isDebug || words.includes('main') ? [] : chosenTargets(words).map(findToolchain)
  const directory = path.join(output, 'staged', 'nacre')
  await stageMain(root, directory)
  report('nacre', pack(directory, output))
  // Their types, where they are missing. Other programs may be using what is there.
  compileTypeScript('-b', ...companions(root).map((name) => path.join(root, 'packages', name)))
  if (!existsSync(path.join(root, 'packages/console/dist/page'))) await bundlePage(root)
  for (const name of companions(root)) {
    const staged = path.join(output, 'staged', name)
    stageCompanion(root, name, staged)
    report(`@nacre/${name}`, pack(staged, output))
  }
  if (isDebug) {
    const [name, built] = [hostTarget(), path.join(root, 'native/debug')]
    const staged = path.join(output, 'staged', name)
    stageDebugPlatform(root, name, built, staged)
    report(packageName(name), pack(staged, output))
  }
  for (const toolchain of toolchains) {
    const { name } = toolchain
    const staged = path.join(output, 'staged', name)
    stagePlatform(root, name, await compile(toolchain), staged)
    report(packageName(name), pack(staged, output))
  }
  for (const cpu of CONTAINERS) {
    const names = ['gnu', 'musl'].map((abi) => [abi, `linux-${cpu}-${abi}`])
    if (!names.every(([, name]) => toolchains.some((toolchain) => toolchain.name === name))) continue
    const directory = path.join(output, 'staged', `container-${cpu}`)
    const platforms = names.map(([abi, name]) => [abi, path.join(output, 'staged', name)])
    stageContainer(root, cpu, Object.fromEntries(platforms), directory)
    report(containerName(cpu), pack(directory, output))
  }
})

function report(name, { file, size, unpackedSize }) {
  const kilobytes = (bytes) => `${(bytes / 1000).toFixed(0)} kB`
  console.log(
    `${name}: ${path.relative(root, file)}, ${kilobytes(size)} packed, ${kilobytes(unpackedSize)} unpacked`,
  )
}
