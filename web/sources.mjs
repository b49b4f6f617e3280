/* sources.mjs: the names and the checksum of all that dist/ is built from; for build.mjs, and for the test that dist/ is not stale. */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const web = dirname(fileURLToPath(import.meta.url));

export function sha256(bytes, encoding = 'hex') {
  return createHash('sha256').update(bytes).digest(encoding);
}

export function sourceNames() {
  const own = ['build.mjs', 'index.html', 'package.json', 'package-lock.json', 'sources.mjs', 'tsconfig.json', 'vite.config.mjs'];
  return [...own, ...readdirSync(join(web, 'src')).map((name) => `src/${name}`)].sort();
}

export function sourcesHash() {
  return sha256(
    sourceNames()
      .map((name) => `${sha256(readFileSync(join(web, name)))}  ${name}\n`)
      .join(''),
  );
}

// What the policy of a page must allow, and nothing else: its own scripts and style, by hash.
export function policyOf(html) {
  const hashes = (pattern) => [...html.matchAll(pattern)].map((m) => `'sha256-${sha256(m[1], 'base64')}'`).join(' ');
  return [
    "default-src 'none'",
    `script-src ${hashes(/<script[^>]*>([\s\S]*?)<\/script>/g)}`,
    `style-src ${hashes(/<style>([\s\S]*?)<\/style>/g)}`,
    'img-src data: blob:',
    'media-src data: blob:',
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');
}
