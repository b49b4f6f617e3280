// vite.config.mjs: for `npm run dev`: the page from its sources, the API from an `inkjet serve` on its usual port.
import { defineConfig } from 'vite';

const server = 'http://127.0.0.1:8080';
export default defineConfig({
  server: { host: '127.0.0.1', proxy: { '/v1': server, '/health': server, '/metrics': server } },
});
