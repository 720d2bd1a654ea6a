import { fileURLToPath } from 'node:url';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

const runtime = fileURLToPath(new URL('./src/lib/jsx-runtime.ts', import.meta.url));

// Asset addresses are relative to <base href>, which the server sets to its base path.
export default defineConfig({
  base: './',
  plugins: [react({ jsxImportSource: 'guarded' })],
  resolve: { alias: { 'guarded/jsx-runtime': runtime, 'guarded/jsx-dev-runtime': 'react/jsx-dev-runtime' } },
  build: { target: 'es2022', assetsInlineLimit: 0, modulePreload: { polyfill: false }, cssCodeSplit: true },
  server: {
    host: '127.0.0.1',
    port: 5173,
    proxy: { '/api': 'http://127.0.0.1:7071', '/readyz': 'http://127.0.0.1:7071' },
  },
});
