/**
 * The projects of the test suite, for vitest.config.mjs and scripts/test.mjs. They run one after another, in this order.
 * Each file belongs to one project. Some also belong to another one, where NACRE_TEST_REST makes them run what they
 * otherwise leave out: the engine's other modes, or more rounds.
 *
 * @typedef {object} Project
 * @property {string} name
 * @property {string} checks a one-line description
 * @property {'test' | 'rest' | 'install' | 'browser' | 'image'} run the command that runs it: `npm test`, `npm run
 * test:rest`, and so on
 * @property {boolean} bun whether it runs on Bun too
 * @property {string[]} include globs
 * @property {string[]} exclude globs
 * @property {number} workers the number of files that Node runs at once. Bun runs one at a time.
 * @property {Record<string, string>} env
 */

const slow = ['__test__/**/*.slow.test.ts']

/** They run Node.js whatever runs the test, and take minutes. */
const next = ['__test__/consumers/next.slow.test.ts']

/** They need the packages of a release build. */
const packages = ['__test__/packages/**/*.test.ts']

/** They drive a browser. */
const browser = ['__test__/examples/web-terminal.test.ts', '__test__/consumers/browser.test.ts']

/** Fleets, queues and sandboxd: servers, pods and workers in separate processes. Queues need Redis. */
const machines = ['__test__/{fleet,queue,sandboxd}/!(*.slow).test.ts']

/** They run the projects of examples/. */
const examples = ['__test__/examples/*.test.ts']

/** They need the container image, built from the packages. */
const image = ['__test__/image/**/*.test.ts']

/** After each of these tests the event loop must not have stalled, or they measure times and memory. */
const measured = [
  '__test__/!(addon|readme).test.ts',
  '__test__/{exec,faults,processes,stream}/**/*.test.ts',
  '__test__/jobs/follow.test.ts',
]

/** @type {Project[]} */
export const projects = [
  {
    name: 'behaviour',
    checks: 'what commands, clients, servers and jobs do',
    run: 'test',
    bun: true,
    include: ['__test__/**/*.test.ts'],
    exclude: [...measured, ...slow, ...machines, ...examples, ...packages, ...browser, ...image],
    workers: 2,
    env: { NACRE_TEST_BUSY: 'yes' },
  },
  {
    name: 'measured',
    checks: 'the same, where stalls, times or memory are measured: one file at a time',
    run: 'test',
    bun: true,
    include: measured,
    exclude: slow,
    workers: 1,
    env: {},
  },
  {
    name: 'slow',
    checks: 'endurance, load, random cuts, other tools: what takes long and seldom breaks',
    run: 'rest',
    bun: true,
    include: [
      ...slow,
      '__test__/faults/a-host-that-is-init-keeps-no-zombies.test.ts',
      '__test__/faults/worker-threads-end-with-what-they-started.test.ts',
    ],
    exclude: next,
    workers: 1,
    env: { NACRE_TEST_REST: 'yes' },
  },
  {
    name: 'machines',
    checks: 'many machines: fleets, queues and sandboxd',
    run: 'rest',
    bun: true,
    include: machines,
    exclude: [],
    workers: 2,
    env: { NACRE_TEST_BUSY: 'yes' },
  },
  {
    name: 'examples',
    checks: 'the projects of examples/',
    run: 'rest',
    bun: true,
    include: examples,
    exclude: browser,
    workers: 1,
    env: {},
  },
  {
    name: 'next',
    checks: 'nacre in the server builds of Next.js',
    run: 'rest',
    bun: false,
    include: next,
    exclude: [],
    workers: 1,
    env: {},
  },
  {
    name: 'modes',
    checks: 'the conformance tables without control groups',
    run: 'rest',
    // The modes only differ in native code, which Node and Bun share.
    bun: false,
    include: ['__test__/conformance/**/*.test.ts'],
    // It sets its mode itself.
    exclude: ['__test__/conformance/plain.test.ts'],
    workers: 2,
    env: { NACRE_TEST_BUSY: 'yes', NACRE_TEST_REST: 'yes' },
  },
  {
    name: 'packages',
    checks: 'the published packages, installed into an empty project',
    run: 'install',
    bun: true,
    include: packages,
    exclude: [],
    workers: 1,
    env: {},
  },
  {
    name: 'browser',
    checks: 'the packed client and the example of a terminal, in Chromium',
    run: 'browser',
    bun: false,
    include: browser,
    exclude: [],
    workers: 1,
    env: {},
  },
  {
    name: 'image',
    checks: 'the container image, built and run',
    run: 'image',
    bun: false,
    include: image,
    exclude: [],
    workers: 1,
    env: {},
  },
]
