import { defineConfig } from 'vitest/config'
import { projects } from './scripts/test/projects.mjs'
import { TEST_TIMEOUT_MS } from './scripts/test/runners.mjs'

export default defineConfig({
  test: {
    projects: projects.map(({ name, include, exclude, workers, env }, order) => ({
      test: {
        name,
        include,
        exclude,
        pool: 'forks',
        // Bun runs all files in one process too.
        isolate: false,
        fileParallelism: workers > 1,
        maxWorkers: workers,
        sequence: { groupOrder: order },
        env: { NACRE_NATIVE: 'debug', ...env },
        testTimeout: TEST_TIMEOUT_MS,
        hookTimeout: TEST_TIMEOUT_MS,
      },
    })),
  },
})
