import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['__test__/**/*.test.ts'],
    pool: 'forks',
    // One file at a time: tests measure stalls and times, which other tests on the same cores would lengthen.
    fileParallelism: false,
    env: { NACRE_NATIVE: 'debug' },
    testTimeout: 20_000,
  },
})
