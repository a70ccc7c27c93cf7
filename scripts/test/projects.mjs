/**
 * The projects of the test suite, for vitest.config.mjs and scripts/test. Each file belongs to one project. Some also belong to
 * another one, where NACRE_TEST_REST makes them run what they otherwise leave out: the engine's other modes, or more rounds.
 *
 * @typedef {object} Project
 * @property {string} name
 * @property {string[]} include globs
 * @property {string[]} [exclude] globs
 * @property {number} workers the number of files that Node runs at once: more than processors where tests wait for programs.
 *   Bun runs one at a time.
 * @property {Record<string, string>} [env]
 */

/** They take minutes and seldom break: endurance, load, random cuts, other tools. */
const slow = [
  '__test__/**/*.slow.test.ts',
  'packages/*/__test__/**/*.slow.test.ts',
  '__test__/faults/a-host-that-is-init-keeps-no-zombies.test.ts',
  '__test__/faults/worker-threads-end-with-what-they-started.test.ts',
]

/** They measure times and memory. */
const measured = ['__test__/**/*.measured.test.ts', 'packages/*/__test__/**/*.measured.test.ts']

/** They run Node.js whatever runs the test, and take minutes. */
const next = ['__test__/consumers/next.slow.test.ts']

/** They need packages, of a debug build for `install` and of a release build for `packages`. */
const install = ['__test__/packages/install.test.ts']
const packages = ['__test__/packages/**/*.test.ts']

/** The packed client, the example of a terminal and the console, in Chromium. */
const browser = [
  '__test__/examples/web-terminal.test.ts',
  '__test__/consumers/{browser,origin.browser}.test.ts',
  'packages/console/__test__/*.browser.test.ts',
]

/** Fleets, queues, sandboxd and compat: servers, pods and workers in separate processes. Queues need Redis. */
const machines = ['packages/{compat,fleet,queue,sandboxd}/__test__/!(*.slow|*.measured).test.ts']

/** What is around nacre: companion packages, and containers with the stand-ins of their engines. They start many programs. */
const companions = [
  'packages/*/__test__/**/*.test.ts',
  '__test__/engine/*.test.ts',
  '__test__/cli/container.test.ts',
]

/** They run the projects of examples/. */
const examples = ['__test__/examples/*.test.ts']

/** They need the documentation site. */
const site = ['__test__/site/**/*.test.ts']

/** They need the container image, built from the packages. */
const image = ['__test__/image/**/*.test.ts']

/** They need container engines, which scripts/test-engines.mjs fetches. */
const engines = ['__test__/engines/**/*.test.ts']

/** They need a kernel, which scripts/test-vm.mjs fetches. */
const vm = ['__test__/vm/*.test.ts']

/** @type {Project[]} */
export const projects = [
  {
    name: 'behaviour',
    include: ['__test__/**/*.test.ts'],
    exclude: [slow, measured, companions, examples, packages, browser, site, image, engines, vm].flat(),
    workers: 4,
  },
  {
    name: 'companions',
    include: companions,
    exclude: [slow, measured, machines, browser].flat(),
    workers: 2,
  },
  { name: 'measured', include: measured, workers: 1 },
  { name: 'slow', include: slow, exclude: next, workers: 1, env: { NACRE_TEST_REST: 'yes' } },
  { name: 'machines', include: machines, workers: 2 },
  { name: 'examples', include: examples, exclude: browser, workers: 1 },
  { name: 'next', include: next, workers: 1 },
  {
    // The conformance tables without control groups.
    name: 'modes',
    include: ['__test__/conformance/**/*.test.ts'],
    // It sets its mode itself.
    exclude: ['__test__/conformance/plain.test.ts'],
    workers: 2,
    env: { NACRE_TEST_REST: 'yes' },
  },
  { name: 'install', include: install, workers: 1, env: { NACRE_TEST_PACKAGES: 'target/packages-debug' } },
  { name: 'packages', include: packages, exclude: measured, workers: 1 },
  { name: 'browser', include: browser, workers: 1 },
  { name: 'site', include: site, workers: 1 },
  { name: 'image', include: image, workers: 1 },
  { name: 'engines', include: engines, workers: 1 },
  { name: 'vm', include: vm, workers: 1 },
]
