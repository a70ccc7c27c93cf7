import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['__test__/**/*.test.ts'],
    pool: 'forks',
    env: { NACRE_NATIVE: 'debug' },
    testTimeout: 20_000,
  },
})
