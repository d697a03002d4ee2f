import { defineConfig } from 'vite';

/** Relative paths, so that the page works wherever a proxy puts it; nothing inline, which its policy for content forbids. */
export default defineConfig({
  root: import.meta.dirname,
  base: './',
  build: {
    outDir: '../dist/dashboard',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
    target: 'es2023',
  },
});
