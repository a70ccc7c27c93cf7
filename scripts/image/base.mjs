/**
 * The Dockerfile's base image, built from Debian's packages and Node.js' npm package, for machines without access to an
 * image registry. It has the name that the Dockerfile requests.
 */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { CACHE } from '../packages/cache.mjs'
import { Problem } from '../packages/problem.mjs'

const NODE = { version: '22.23.3', npm: '10.9.9' }
const DIRECTORY = path.join(CACHE, 'image-base')

/** Builds the image, and returns its name. */
export function makeBase(tools, dockerfile) {
  const name = nameIn(dockerfile)
  const image = `docker.io/library/${name}`
  mkdirSync(DIRECTORY, { recursive: true })
  const modules = installNode()
  const container = tools.buildah('from', '--signature-policy', tools.policy, 'scratch')
  tools.buildah('add', '--quiet', container, debian(tools, name), '/')
  const root = tools.buildah('mount', container)
  const npm = path.join(root, 'usr/local/lib/node_modules/npm')
  mkdirSync(path.dirname(npm), { recursive: true })
  cpSync(path.join(modules, `node-linux-${process.arch}/bin/node`), path.join(root, 'usr/local/bin/node'))
  cpSync(path.join(modules, 'npm'), npm, { recursive: true })
  chmodSync(path.join(npm, 'bin/npm-cli.js'), 0o755)
  symlinkSync('../lib/node_modules/npm/bin/npm-cli.js', path.join(root, 'usr/local/bin/npm'))
  const search = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
  tools.buildah('config', '--env', `PATH=${search}`, '--cmd', 'node', container)
  tools.buildah('commit', '--quiet', '--signature-policy', tools.policy, '--rm', container, image)
  return image
}

/** The base image of every stage of the Dockerfile. */
function nameIn(dockerfile) {
  const names = [...readFileSync(dockerfile, 'utf8').matchAll(/^FROM (\S+)/gm)].map(([, name]) => name)
  if (new Set(names).size !== 1)
    throw new Problem(`The Dockerfile begins with several images: ${names.join(', ')}.`)
  if (!names[0].startsWith(`node:${NODE.version.split('.')[0]}-`))
    throw new Problem(
      `The Dockerfile begins with ${names[0]}, and scripts/image/base.mjs has Node.js ${NODE.version}.`,
    )
  return names[0]
}

/** A minimal Debian, as a tarball. */
function debian(tools, name) {
  const release = /-(bookworm|trixie)-slim$/.exec(name)?.[1]
  if (release === undefined)
    throw new Problem(`The image ${name} is of no Debian release that is known here.`)
  const file = path.join(DIRECTORY, `${release}.tar`)
  if (existsSync(file)) return file
  const excluded = ['doc', 'man', 'locale'].map((part) => `--dpkgopt=path-exclude=/usr/share/${part}/*`)
  const partial = path.join(DIRECTORY, 'partial.tar')
  tools.mmdebstrap(
    '--variant=minbase',
    '--mode=root',
    '--dpkgopt=force-unsafe-io',
    ...excluded,
    release,
    partial,
  )
  renameSync(partial, file)
  return file
}

function installNode() {
  writeFileSync(path.join(DIRECTORY, 'package.json'), '{ "private": true }')
  const packages = [`node-linux-${process.arch}@${NODE.version}`, `npm@${NODE.npm}`]
  const args = ['install', '--ignore-scripts', '--no-audit', '--no-fund', '--no-save', ...packages]
  execFileSync('npm', args, { cwd: DIRECTORY, stdio: ['ignore', 'ignore', 'inherit'] })
  return path.join(DIRECTORY, 'node_modules')
}
