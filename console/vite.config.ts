import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// Asset addresses are relative to <base href>, which the server sets to its base path.
export default defineConfig({
  base: './',
  plugins: [react()],
  build: { target: 'es2022', assetsInlineLimit: 0, modulePreload: { polyfill: false }, cssCodeSplit: true },
  server: {
    host: '127.0.0.1',
    port: 5173,
    proxy: { '/api': 'http://127.0.0.1:7071', '/readyz': 'http://127.0.0.1:7071' },
  },
});
