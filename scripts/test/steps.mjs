/**
 * The steps of `npm test`, `.ci/run` and `npm run test:full`.
 *
 * Each ring includes the one before it: gate, check, full. Two steps run at once, in this order, unless one is `alone`.
 *
 * @typedef {object} Step
 * @property {string} name
 * @property {'gate' | 'check' | 'full'} ring the smallest ring that it belongs to
 * @property {string[][]} [run] commands, one after another
 * @property {object} [tests] test files to run after the commands, by a runner of runners.mjs
 * @property {string[]} [debian] Debian packages, each with a program of that name, or as `package:program`
 * @property {boolean} [inMemory] its temporary files are in memory, if possible: ext4 needs seconds to make a file after many
 *   have been removed
 * @property {boolean} [alone] nothing else runs meanwhile
 */
import { runOnBun, runOnCargo, runOnNode } from './runners.mjs'

/** On Bun, the gate runs what can differ there from Node: the addon, the contract and the client. */
const differsOnBun = /^__test__\/((contract|client)\/|addon\.test)/

const node = (project, rest) => ({ runner: runOnNode, project, ...rest })
const bun = (project, rest) => ({ runner: runOnBun, project, ...rest })
const script = (file, ...args) => [process.execPath, `scripts/${file}`, ...args]
const everything = ['behaviour', 'companions']
/** On a machine that has been used badly. */
const hostile = script('test/hostile.mjs')
const npm = (name) => ['npm', 'run', '--silent', name]

/** The slow tests need a server, programs that wait for input, and programs that use the network. */
const forSlow = [
  'redis-server',
  ...['default-jdk-headless:javac', 'libwww-perl:lwp-request', 'php-cli:php', 'ruby', 'skopeo', 'wget'],
  ...['bc', 'ed', 'gdb', 'less', 'openssl', 'patch', 'sqlite3', 'unzip', 'vim', 'curl', 'git', 'make'],
  ...['python3', 'openssh-client:ssh', 'procps:top'],
]

/** From the smallest to the largest. */
export const RINGS = ['gate', 'check', 'full']

/** @type {Step[]} */
export const steps = [
  { name: 'build', ring: 'gate', run: [script('setup.mjs', '--debug')], alone: true },
  { name: 'rust', ring: 'gate', tests: { runner: runOnCargo }, inMemory: true },
  { name: 'node', ring: 'gate', tests: node('behaviour') },
  { name: 'bun', ring: 'gate', tests: bun('behaviour', { only: (file) => differsOnBun.test(file) }) },
  { name: 'companions', ring: 'check', tests: node('companions') },
  {
    name: 'lints',
    ring: 'check',
    run: [
      ['cargo', 'fmt', '--all', '--check'],
      ['cargo', 'clippy', '--workspace', '--all-targets', '--locked', '--', '-D', 'warnings'],
    ],
  },
  { name: 'style', ring: 'check', run: [npm('check')] },
  {
    name: 'install',
    ring: 'check',
    run: [script('build-packages.mjs', '--debug')],
    tests: node('install'),
  },
  {
    name: 'rust-rest',
    ring: 'full',
    run: [
      [
        'cargo',
        'doc',
        '--no-deps',
        '--workspace',
        '--document-private-items',
        '--locked',
        '--config',
        'build.rustdocflags=["-Dwarnings"]',
      ],
      // Compiles the fuzz targets, too.
      ['cargo', 'test', '--manifest-path', 'fuzz/Cargo.toml', '--locked'],
    ],
  },
  {
    name: 'packages',
    ring: 'full',
    run: [script('packages/fetch-tools.mjs'), script('build-packages.mjs'), npm('check:package')],
    tests: node('packages'),
  },
  {
    name: 'bun-rest',
    ring: 'full',
    tests: bun('behaviour', { only: (file) => !differsOnBun.test(file) }),
    debian: ['busybox'],
  },
  { name: 'companions-bun', ring: 'full', tests: bun('companions'), debian: ['busybox'] },
  { name: 'slow', ring: 'full', tests: node('slow'), debian: forSlow },
  { name: 'slow-bun', ring: 'full', tests: bun('slow'), debian: forSlow },
  { name: 'machines', ring: 'full', tests: node('machines'), debian: ['redis-server'] },
  { name: 'machines-bun', ring: 'full', tests: bun('machines'), debian: ['redis-server'] },
  { name: 'examples', ring: 'full', tests: node('examples') },
  { name: 'examples-bun', ring: 'full', tests: bun('examples') },
  { name: 'next', ring: 'full', tests: node('next') },
  { name: 'modes', ring: 'full', tests: node('modes') },
  { name: 'browser', ring: 'full', tests: node('browser'), debian: ['chromium'] },
  { name: 'node-20', ring: 'full', tests: node(everything, { node: 20 }) },
  { name: 'node-22', ring: 'full', tests: node(everything, { node: 22 }) },
  { name: 'node-24', ring: 'full', tests: node(everything, { node: 24 }) },
  {
    name: 'random',
    ring: 'full',
    run: [
      script('fuzz.mjs', '--seconds', '30'),
      script('chaos.mjs', '--seconds', '30'),
      script('states.mjs', '--states', '60'),
      script('job-storm.mjs', '--seconds', '60'),
      ['env', 'NACRE_ROUNDS=120', 'cargo', 'test', '--locked', '-p', 'nacre-supervisor', 'watch_tests'],
      ['env', 'NACRE_TEST_SEEDS=40', 'cargo', 'test', '--locked', '-p', 'nacre-workspace'],
      ['env', 'NACRE_TEST_REST=yes', 'cargo', 'test', '--locked', '-p', 'nacre-supervisor', 'generations'],
    ],
  },
  { name: 'hostile', ring: 'full', tests: node(everything, { within: hostile }) },
  { name: 'hostile-rust', ring: 'full', tests: { runner: runOnCargo, within: hostile } },
  { name: 'engines', ring: 'full', run: [script('test-engines.mjs')] },
  {
    name: 'vm',
    ring: 'full',
    run: [script('test-vm.mjs')],
    debian: ['qemu-system-x86:qemu-system-x86_64', 'kmod:depmod'],
  },
  { name: 'limits', ring: 'full', run: [script('test-limits.mjs', '--debug')] },
  {
    name: 'site',
    ring: 'full',
    run: [script('docs-site.mjs')],
    tests: node('site'),
    debian: ['chromium'],
  },
  { name: 'measured', ring: 'full', tests: node('measured'), alone: true },
  { name: 'measured-bun', ring: 'full', tests: bun('measured'), alone: true },
]
