import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/oauth/global-setup.ts', 'test/proxies/global-setup.ts', 'test/redis/global-setup.ts'],
    exclude: ['test/package/fixtures/**', 'node_modules/**'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    maxWorkers: 2,
  },
});
