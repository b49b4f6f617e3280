/* kit.mjs: a browser, a server and a list of tests. A test gets a fresh browser profile, and fails also when the page asks anything of
 * another origin, breaks its policy, or throws.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const require = createRequire(new URL('../../web/package.json', import.meta.url));
const { chromium } = require('playwright-core');
const axe = require('axe-core').source;

const PLACES = [
  process.env.CHROMIUM,
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
];

export async function openBrowser() {
  const executablePath = PLACES.find((p) => p && existsSync(p));
  if (!executablePath) throw new Error('no Chromium was found: install it (Debian: chromium), or set CHROMIUM to its path');
  return chromium.launch({ executablePath, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] });
}

const tests = [];

export function test(name, body, options = {}) {
  tests.push({ name, body, options });
}

export async function runAll(start, only) {
  const browser = await openBrowser();
  const downloads = mkdtempSync(join(tmpdir(), 'inkjet-page-'));
  let passed = 0;
  let failed = 0;
  for (const { name, body, options } of tests) {
    if (only && !name.includes(only)) continue;
    const began = performance.now();
    const server = await start(options.server);
    const context = await browser.newContext({ viewport: { width: 1100, height: 760 }, ...options.context });
    const page = await context.newPage();
    page.setDefaultTimeout(20000);
    const problems = [];
    const foreign = (url) => !url.startsWith(server.url) && !/^(data|blob):/.test(url);
    context.on('request', (r) => {
      if (foreign(r.url())) problems.push(`asked for ${r.url()}`);
    });
    page.on('pageerror', (e) => problems.push(`threw: ${e.message}`));
    page.on('console', (m) => {
      if (/Content Security Policy|TrustedHTML|Refused/i.test(m.text())) problems.push(m.text());
    });
    try {
      await page.goto(server.url);
      await ready(page);
      await body(tools(page, context, server, downloads, problems));
      assert.deepEqual(problems, []);
      passed += 1;
      console.log(`ok      ${name} (${((performance.now() - began) / 1000).toFixed(1)} s)`);
    } catch (e) {
      failed += 1;
      console.log(`not ok  ${name}\n${String(e.stack ?? e).replace(/^/gm, '        ')}\n        ${problems.join('\n        ')}`);
      if (process.env.SHOTS)
        await page.screenshot({ path: join(process.env.SHOTS, `${name.replace(/\W+/g, '-')}.png`) }).catch(() => undefined);
    }
    await context.close();
    await server.close();
  }
  await browser.close();
  rmSync(downloads, { recursive: true });
  console.log(`${passed} passed, ${failed} failed`);
  return failed === 0 && passed > 0;
}

// The page has read its store once it puts the focus on the message box.
function ready(page) {
  return page.waitForFunction(() => document.activeElement.id === 'prompt');
}

function tools(page, context, server, downloads, problems) {
  const answers = page.locator('.message.assistant');
  const t = {
    page,
    context,
    server,
    downloads,
    answers,
    button: (name, within = page) => within.getByRole('button', { name, exact: true }),
    last: () => answers.last(),
    prompt: page.locator('#prompt'),
    type: async (text) => {
      await t.prompt.fill(text);
      await t.prompt.press('Enter');
    },
    reload: async () => {
      await page.reload();
      await ready(page);
    },
    // Sends a message and waits for the end of its answer.
    say: async (text) => {
      await t.type(text);
      await t.idle();
    },
    idle: () => page.locator('#send[aria-label="Send"]').waitFor({ timeout: 60000 }),
    live: () => page.locator('#send[aria-label="Stop"]').waitFor(),
    text: (locator) => locator.innerText(),
    expectProblems: () => {
      assert.ok(problems.length > 0);
      problems.length = 0;
    },
    check: async (what) => {
      await page.evaluate(`(() => { ${axe} })()`); // in the page's world, but not by its policy
      const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
      const lines = found.violations.map(
        (v) =>
          `${v.id} (${v.impact}): ${v.help}\n  ${v.nodes
            .slice(0, 3)
            .map((n) => `${n.html.slice(0, 160)} ${n.any.map((a) => a.message).join('; ')}`)
            .join('\n  ')}`,
      );
      assert.equal(lines.join('\n'), '', `axe: ${what}`);
      assert.ok(found.passes.length > 10);
    },
  };
  return t;
}
