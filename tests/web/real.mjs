/* real.mjs: the page in headless Chromium against `inkjet serve`: node real.mjs PROGRAM [MODEL] [WORDS]. What a model says is not known
 * here, and may be noise (random weights may say nothing that streams): the tests hold what must hold for any words.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runAll, test } from './kit.mjs';

const [program, model, only] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'inkjet-page-'));
const keys = join(folder, 'keys');
writeFileSync(keys, 'right-key-of-this-test\n');

function start(options = {}) {
  const args = [
    'serve',
    ...(model ? ['-m', model] : []),
    '--port',
    '0',
    '--ctx',
    '4000',
    '--parallel',
    '2',
    '--cache',
    '256',
    '--drain',
    '1',
    ...(options.keys ? ['--api-key-file', keys] : []),
  ];
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  return new Promise((resolve, reject) => {
    let said = '';
    child.stdout.on('data', (b) => {
      said += b;
      const m = /(http:\/\/[\d.]+:\d+)\s/.exec(said);
      if (m)
        resolve({
          url: `${m[1]}/`,
          close: () =>
            new Promise((done) => {
              child.on('exit', done);
              child.kill('SIGTERM');
            }),
        });
    });
    child.on('exit', (code) => reject(new Error(`${program} ended with ${code}: ${said}`)));
  });
}

async function limit(t, tokens) {
  await t.button('Settings').click();
  await t.page.getByRole('textbox', { name: 'Longest answer' }).fill(String(tokens));
  await t.page.keyboard.press('Escape');
}

/* Answers of this form, without thinking before. */
async function structure(t, schema) {
  await t.button('Settings').click();
  await t.page.getByRole('combobox', { name: 'Form of answers' }).selectOption('json_schema');
  await t.page.getByRole('textbox', { name: 'Schema' }).fill(JSON.stringify(schema));
  await t.page.keyboard.press('Escape');
  await t.page.locator('#effort').selectOption('none');
}

const metric = async (t, name) =>
  Number(new RegExp(`^inkjet_${name} (\\S+)`, 'm').exec(await (await fetch(`${t.server.url}metrics`)).text())[1]);
const said = (t) => t.last().locator('article > .md, article > details').allTextContents();

test('the page as it is served', async (t) => {
  const r = await fetch(t.server.url);
  assert.ok(
    (await r.text()) === readFileSync(new URL('../../web/dist/index.html', import.meta.url)).toString(),
    'the program holds another page: build it anew',
  );
  assert.match(r.headers.get('content-security-policy'), /^default-src 'none'; script-src 'sha256-.*frame-ancestors 'none'$/);
  assert.equal(r.headers.get('x-content-type-options'), 'nosniff');
  assert.equal(r.headers.get('content-type'), 'text/html; charset=utf-8');
  const again = await fetch(t.server.url, { headers: { 'If-None-Match': r.headers.get('etag') } });
  assert.equal(again.status, 304);
});

test('send, meters; an answer that was cut goes on, streaming', async (t) => {
  await limit(t, 24);
  await t.say('Say something about ink.');
  const first = (await said(t)).join('');
  assert.ok(first !== '');
  assert.match(await t.text(t.last().locator('.stats')), /first token .* · \d+ in.* · \d+ out/);
  await t.page.locator('#meters').getByText('Memory').waitFor();
  assert.notEqual(await t.text(t.page.locator('#model')), '');
  await limit(t, 400);
  if (await t.button('Continue answer').count()) {
    await t.button('Continue answer').click();
    await t.live();
    await t.page.waitForFunction((n) => document.querySelector('.message.assistant article').innerText.length > n + 20, first.length);
    if (await t.button('Stop').count()) await t.page.keyboard.press('Escape');
    await t.idle();
    assert.ok((await said(t)).join('').length > first.length);
  }
  await limit(t, 12);
  await t.say('And about water?');
  assert.equal(await t.answers.count(), 2);
  assert.equal(await t.page.locator('.end.bad').count(), 0);
});

test('stop ends the work of the server', async (t) => {
  await limit(t, 3800);
  await structure(t, { type: 'array', items: { type: 'integer', minimum: 100, maximum: 999 }, minItems: 2000 }); // long, whatever the model wants
  await t.type('Tell a long story.');
  for (let i = 0; i < 400 && (await metric(t, 'jobs_running')) < 1; i += 1) await t.page.waitForTimeout(5);
  assert.equal(await metric(t, 'jobs_running'), 1);
  await t.page.keyboard.press('Escape');
  await t.last().getByText('Stopped.').waitFor();
  for (let i = 0; i < 50 && (await metric(t, 'jobs_running')) > 0; i += 1) await t.page.waitForTimeout(50);
  assert.equal(await metric(t, 'jobs_running'), 0);
  assert.ok((await metric(t, 'jobs_cancelled_total')) >= 1);
  const before = await said(t);
  await t.reload();
  assert.deepEqual(await said(t), before);
});

test('the same seed, the same answer; an edit rewinds', async (t) => {
  await limit(t, 16);
  await t.button('Settings').click();
  await t.page.getByRole('textbox', { name: 'Temperature' }).fill('0.8');
  await t.page.getByRole('textbox', { name: 'Seed' }).fill('7');
  await t.page.keyboard.press('Escape');
  await t.say('Name three colours.');
  const first = await said(t);
  await t.button('Regenerate answer').click();
  await t.idle();
  assert.deepEqual(await said(t), first);
  assert.match(await t.text(t.last().locator('.stats')), /\(\d+ cached\)/);
  await t.button('Edit message').click();
  await t.page.getByRole('textbox', { name: 'Edit message' }).fill('Name three rivers.');
  await t.page.keyboard.press('Enter');
  await t.idle();
  assert.equal(await t.page.locator('.end.bad').count(), 0);
  await t.button('Earlier version').first().click();
  assert.deepEqual(await said(t), first);
});

test('structured output', async (t) => {
  await limit(t, 200);
  await structure(t, { type: 'object', properties: { colour: { enum: ['red', 'blue'] } }, required: ['colour'], additionalProperties: false });
  await t.say('Which colour?');
  assert.ok(['red', 'blue'].includes(JSON.parse(await t.text(t.last().locator('.code code'))).colour));
});

test('a refusal is shown in the words of the server', async (t) => {
  await limit(t, 16);
  const chooser = t.page.waitForEvent('filechooser');
  await t.button('Attach pictures or sounds').click();
  await (await chooser).setFiles({ name: 'x.png', mimeType: 'image/png', buffer: Buffer.from('no picture at all') });
  await t.say('What is this?');
  const shown = await t.text(t.last().locator('.end.bad'));
  assert.ok(shown.length > 10 && !/HTTP 400/.test(shown), shown);
});

test(
  'keys',
  async (t) => {
    await limit(t, 8);
    await t.type('hello');
    await t.page.getByRole('textbox', { name: 'API key' }).fill('right-key-of-this-test');
    await t.button('Use it').click();
    await t.last().locator('.stats').getByText('out').waitFor();
  },
  { server: { keys: true } },
);

const ok = await runAll(start, only);
rmSync(folder, { recursive: true });
process.exitCode = ok ? 0 : 1;
