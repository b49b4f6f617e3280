// What is committed in web/dist is what the sources build, as far as that can be seen without npm; `tests/web/run.sh` builds it anew.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { policyOf, sha256, sourcesHash, web } from '../../../web/sources.mjs';

const read = (name) => readFileSync(join(web, name));
const html = read('dist/index.html').toString();

test('dist/ belongs to these sources (else: npm --prefix web run build)', () => {
  const sums = JSON.parse(read('dist/sums.json'));
  assert.equal(sums.sources, sourcesHash());
  assert.equal(sums['index.html'], sha256(read('dist/index.html')));
  assert.equal(sums['parts.mjs'], sha256(read('dist/parts.mjs')));
});

test('the policy allows the scripts and the style of the page, by hash, and nothing else', () => {
  const policy = /http-equiv="Content-Security-Policy" content="([^"]+)"/.exec(html)[1];
  assert.equal(policy, policyOf(html));
  assert.match(policy, /^default-src 'none'; /);
  assert.doesNotMatch(policy, /unsafe|https?:|\*/);
});

test('one file, small, that loads nothing', () => {
  assert.ok(html.length < 300000);
  assert.doesNotMatch(html, /<(script|img|link|iframe|source)[^>]*\b(src|href)="(?!data:)/);
  assert.doesNotMatch(html, /@import|url\(/);
  assert.doesNotMatch(html, /\.(innerHTML|outerHTML|insertAdjacentHTML|write)\b|\beval\(|new Function/);
});

test('the lock file names no registry', () => {
  assert.doesNotMatch(read('package-lock.json').toString(), /"resolved"/);
  assert.match(read('package-lock.json').toString(), /"integrity"/);
});

test('the lock file holds every package that one in it names', () => {
  const { packages } = JSON.parse(read('package-lock.json'));
  const missing = Object.entries(packages).flatMap(([at, p]) =>
    Object.keys({ ...p.dependencies, ...p.devDependencies, ...p.optionalDependencies })
      .filter((name) => !packages[`node_modules/${name}`] && !packages[`${at}/node_modules/${name}`])
      .map((name) => `${at}: ${name}`),
  );
  assert.deepEqual(missing, []); // else npm ci fails
});
