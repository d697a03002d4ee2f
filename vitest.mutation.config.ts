import { defineConfig } from 'vitest/config';

// What mutation testing runs: the tests of the rooms that it changes. Tests of others would only make it slower.
export default defineConfig({
  test: { include: ['src/{admission,delivery,dataset}/**/*.test.ts'] },
});
