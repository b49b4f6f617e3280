/* browser.mjs: the page in headless Chromium against mock.mjs. Run by run.sh; `node browser.mjs WORDS` runs the tests named with them. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runAll, test } from './kit.mjs';
import { startMock } from './mock.mjs';

const PIXEL = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M/wHwAEBgIApD5fRAAAAABJRU5ErkJggg==', 'base64');
const SOUND = Buffer.concat([
  Buffer.from('RIFF\x2c\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0data\x08\0\0\0', 'latin1'),
  Buffer.alloc(8),
]);

/* ---------------------------------------------------------------------------------------------------- a conversation */

test('an answer streams, and says how fast it was', async (t) => {
  await t.type('slow please');
  await t.live();
  await t.last().getByText('word word').waitFor();
  const before = (await t.text(t.last().locator('.md').last())).length;
  await t.page.waitForFunction((n) => document.querySelector('.message.assistant article > .md').innerText.length > n + 30, before);
  assert.equal(await t.last().locator('article').getAttribute('aria-busy'), 'true');
  assert.match(await t.text(t.last().locator('.stats')), /^~[\d.]+ tok\/s · first token .* · ~\d+ out$/);
  await t.button('Stop').click();
  await t.idle();
  await t.say('steady');
  assert.match(await t.text(t.last()), /one word after the other/);
  assert.match(await t.text(t.last().locator('.stats')), /^[\d.]+ tok\/s · first token .* · \d+ in \(\d+ cached\) · \d+ out$/);
  const { messages, stream, stream_options: options } = t.server.log.chats[1];
  assert.deepEqual([stream, options], [true, { include_usage: true }]);
  assert.deepEqual(
    messages.map((m) => m.role),
    ['user', 'assistant', 'user'],
  );
  assert.match(messages[1].content, /^word word/);
});

test('stop: by button and by Escape; the server sees it, and what came is kept', async (t) => {
  for (const [n, how] of [
    [1, () => t.button('Stop').click()],
    [2, () => t.page.keyboard.press('Escape')],
  ]) {
    await t.type('slow');
    await t.last().getByText('word word').waitFor();
    await how();
    await t.last().getByText('Stopped.').waitFor();
    await t.idle();
    assert.match(await t.text(t.last()), /word word/);
    assert.equal(await t.page.evaluate(() => document.activeElement.id), 'prompt');
    await t.page.waitForTimeout(150);
    assert.equal(t.server.log.gone, n);
  }
});

test('regenerate: the first answer stays reachable', async (t) => {
  await t.say('hello');
  await t.button('Regenerate answer').click();
  await t.idle();
  assert.equal(await t.answers.count(), 1);
  assert.match(await t.text(t.last()), /This is answer 2/);
  assert.deepEqual(t.server.log.chats[1].messages, [{ role: 'user', content: 'hello' }]);
  assert.match(await t.text(t.last().locator('.versions')), /2\/2/);
  await t.button('Earlier version').click();
  assert.match(await t.text(t.last()), /This is answer 1/);
  assert.equal(await t.page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Later version');
  await t.reload();
  assert.match(await t.text(t.last()), /This is answer 1/);
});

test('an answer that was cut goes on', async (t) => {
  await t.say('cut');
  await t.last().getByText('Cut at the longest answer allowed.').waitFor();
  await t.button('Continue answer').click();
  await t.idle();
  assert.equal(await t.answers.count(), 1);
  assert.match(await t.text(t.last()), /The first part and the rest of it\./);
  const { messages, continue_final_message: goOn } = t.server.log.chats[1];
  assert.deepEqual([messages.map((m) => m.content), goOn], [['cut', 'The first part'], true]);
  assert.equal(await t.button('Continue answer').count(), 0);
});

test('edit: the new message stands beside the old one', async (t) => {
  await t.say('one');
  await t.say('two');
  await t.button('Edit message').first().click();
  const area = t.page.getByRole('textbox', { name: 'Edit message' });
  assert.equal(await area.inputValue(), 'one');
  await area.fill('ONE');
  await area.press('Escape');
  assert.equal(await t.page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Edit message');
  await t.button('Edit message').first().click();
  await area.fill('ONE');
  await area.press('Enter');
  await t.idle();
  assert.deepEqual(t.server.log.chats[2].messages, [{ role: 'user', content: 'ONE' }]);
  assert.equal(await t.page.locator('.message').count(), 2);
  await t.button('Earlier version').click();
  assert.equal(await t.page.locator('.message').count(), 4);
  assert.match(await t.text(t.page.locator('.message.user').last()), /two/);
  await t.prompt.focus();
  await t.page.keyboard.press('ArrowUp');
  assert.equal(await area.inputValue(), 'two');
});

test('reload keeps history, also of an answer that was cut by it', async (t) => {
  await t.say('hello');
  await t.type('slow');
  await t.last().getByText('word word').waitFor();
  await t.page.waitForTimeout(1500);
  await t.reload();
  await t.last().getByText('Stopped.').waitFor();
  assert.equal(await t.page.locator('.message').count(), 4);
  assert.match(await t.text(t.last()), /word word/);
  assert.match(await t.text(t.page.locator('#list')), /hello/);
  assert.equal(await t.text(t.page.locator('h1')), 'hello');
});

test('several conversations, one answering while another is looked at', async (t) => {
  await t.type('slow one');
  await t.last().getByText('word word').waitFor();
  await t.button('New conversation').click();
  await t.say('hello');
  assert.match(await t.text(t.last()), /You said: hello/);
  await t.page
    .locator('#list')
    .getByRole('button', { name: /^slow one ?, answering$/ })
    .click();
  await t.live();
  const n = (await t.text(t.last())).length;
  await t.page.waitForFunction((k) => document.querySelector('.message.assistant').innerText.length > k + 20, n);
  await t.button('Delete slow one').click();
  await t.button('Cancel').click();
  await t.button('Delete slow one').click();
  await t.button('Delete').click();
  await t.page.waitForFunction(() => document.querySelectorAll('.entry').length === 1);
  await t.page.waitForTimeout(200);
  assert.equal(t.server.log.gone, 1);
  await t.reload();
  assert.equal(await t.page.locator('.entry').count(), 1);
  assert.equal(await t.page.evaluate(() => document.querySelector('.entry-open').title), 'hello');
});

test('export, delete all, import', async (t) => {
  await t.say('think about ink');
  await t.button('New conversation').click();
  await t.say('second');
  const wait = t.page.waitForEvent('download');
  await t.button('Export all conversations').click();
  const file = join(t.downloads, 'all.json');
  await (await wait).saveAs(file);
  assert.equal(JSON.parse(readFileSync(file)).conversations.length, 2);
  await t.button('Settings').click();
  await t.button('Delete all conversations…').click();
  await t.button('Delete all').click();
  await t.page.getByText('Nothing here yet.').waitFor();
  const bring = async (path) => {
    const chooser = t.page.waitForEvent('filechooser');
    await t.button('Import conversations').click();
    await (await chooser).setFiles(path);
  };
  await bring(file);
  await t.page.getByText('2 conversations imported.').first().waitFor();
  await t.page.locator('#list').getByRole('button', { name: 'think about ink', exact: true }).click();
  await t.page.getByText('Thought for').waitFor();
  await bring(file); // again: as copies, nothing is replaced
  await t.page.waitForFunction(() => document.querySelectorAll('.entry').length === 4);
  writeFileSync(file, '{"format":"inkjet-conversations","version":1,"conversations":[{}]}');
  await bring(file);
  await t.page.locator('#notice').getByText('conversations[0].messages is not a list').waitFor();
  const one = t.page.waitForEvent('download');
  await t.button('Export this conversation').click();
  assert.match((await one).suggestedFilename(), /^(think-about-ink|second)\.json$/);
});

test('rename', async (t) => {
  await t.say('hello');
  await t.button('Rename conversation').click();
  await t.page.keyboard.type('A better name');
  await t.page.keyboard.press('Enter');
  await t.page.locator('#list').getByText('A better name').waitFor();
  await t.say('more');
  await t.reload();
  assert.equal(await t.text(t.page.locator('h1')), 'A better name');
  assert.equal(await t.page.title(), 'A better name · inkjet');
});

/* ------------------------------------------------------------------------------------------------- what a model says */

test('markdown', async (t) => {
  await t.context.grantPermissions(['clipboard-read', 'clipboard-write']);
  await t.say('rich');
  const md = t.last().locator('.md').last();
  for (const [selector, n] of [
    ['h3', 1],
    ['strong', 1],
    ['ol > li', 2],
    ['ol ul > li', 2],
    ['table tbody tr', 2],
    ['.code pre', 1],
    ['blockquote', 1],
    ['.math', 1],
    ['.math-block', 1],
    ['hr', 1],
    ['input:checked', 1],
  ]) {
    assert.equal(await md.locator(selector).count(), n, selector);
  }
  const link = md.locator('a');
  assert.deepEqual(
    [await link.getAttribute('href'), await link.getAttribute('rel'), await link.getAttribute('target')],
    ['https://example.com/a?b=c', 'noopener noreferrer nofollow', '_blank'],
  );
  await t.button('Copy code').click();
  await t.button('Copied').waitFor();
  assert.equal(await t.page.evaluate(() => navigator.clipboard.readText()), 'def hello(name: str) -> str:\n    return f"Hello, {name}!"');
});

test('hostile text is text', async (t) => {
  await t.say('hostile');
  await t.page.waitForTimeout(300);
  assert.equal(await t.page.evaluate(() => window.hacked), undefined);
  const article = t.last();
  assert.equal(await article.locator('script, img, svg:not(.icon), iframe, style, base, meta, form, input, object, embed').count(), 0);
  const hrefs = await article.locator('a').evaluateAll((links) => links.map((a) => a.getAttribute('href')));
  assert.ok(hrefs.length > 0 && hrefs.every((h) => h.startsWith('https://')), hrefs.join(' '));
  const handlers = await article
    .locator('*')
    .evaluateAll((all) => all.flatMap((e) => e.getAttributeNames()).filter((n) => /^on|^style$/.test(n)));
  assert.deepEqual(handlers, []);
  assert.match(await t.text(article), /<script>window\.hacked = 1<\/script><img src=x onerror/);
  // The same from a title, a file and the server's own errors.
  await t.say('<img src=x onerror="window.hacked=20"> refuse');
  await t.reload();
  await t.page.waitForTimeout(200);
  assert.equal(await t.page.evaluate(() => window.hacked), undefined);
  assert.equal(await t.page.locator('img').count(), 0);
});

test('the policy stops what the page itself would do wrong', async (t) => {
  const outcome = await t.page.evaluate(async () => {
    const out = {};
    try {
      document.createElement('div').innerHTML = '<b>x</b>';
      out.html = 'allowed';
    } catch {
      out.html = 'stopped';
    }
    out.fetch = await fetch('https://evil.example/').then(
      () => 'allowed',
      () => 'stopped',
    );
    const s = document.createElement('script');
    try {
      s.textContent = 'window.hacked = 1';
      document.body.append(s);
    } catch {
      /* stopped */
    }
    out.script = window.hacked === 1 ? 'allowed' : 'stopped';
    return out;
  });
  assert.deepEqual(outcome, { html: 'stopped', fetch: 'stopped', script: 'stopped' });
  await t.reload();
  t.expectProblems();
});

test('reasoning is folded', async (t) => {
  await t.type('think slow');
  await t.page.getByText('Thinking…').waitFor();
  const fold = t.last().locator('details');
  assert.equal(await fold.evaluate((d) => d.open), false);
  await fold.locator('summary').click();
  await t.page.getByText('both').first().waitFor();
  await t.last().getByText('word word').waitFor();
  assert.equal(await fold.evaluate((d) => d.open), true);
  await t.page.keyboard.press('Escape');
  await t.page.getByText('Thought for').waitFor();
  await t.say('again');
  assert.match(t.server.log.chats[1].messages[1].reasoning_content, /^The user wants me to think/);
});

test('tool calls are shown, and their results go back', async (t) => {
  await t.button('Settings').click();
  await t.page
    .getByRole('textbox', { name: 'Functions' })
    .fill('[{"type":"function","function":{"name":"weather","parameters":{"type":"object"}}}]');
  await t.page.keyboard.press('Escape');
  await t.say('use tools');
  assert.equal(t.server.log.chats[0].tools[0].function.name, 'weather');
  assert.match(await t.text(t.last().locator('.call').first()), /weather[\s\S]*"city": "Oslo",\n/);
  await t.page.getByRole('textbox', { name: 'Result of weather' }).fill('sunny');
  await t.page.getByRole('textbox', { name: 'Result of time' }).fill('noon');
  await t.button('Send results').click();
  await t.last().getByText('The tool said: noon').waitFor();
  await t.idle();
  assert.deepEqual(
    t.server.log.chats[1].messages.slice(1).map((m) => [m.role, m.tool_call_id ?? m.tool_calls.map((c) => c.id)]),
    [
      ['assistant', ['call_0', 'call_1']],
      ['tool', 'call_0'],
      ['tool', 'call_1'],
    ],
  );
  assert.equal(await t.page.locator('.results').count(), 0);
});

test('structured output', async (t) => {
  await t.button('Settings').click();
  await t.page.getByRole('combobox', { name: 'Form of answers' }).selectOption('json_schema');
  await t.page.keyboard.press('Escape');
  await t.type('give');
  await t.page.locator('#notice').getByText('Schema: it is empty').waitFor();
  assert.equal(await t.page.locator('.message').count(), 0);
  assert.equal(await t.prompt.inputValue(), 'give');
  await t.button('Settings').click();
  await t.page.getByRole('textbox', { name: 'Schema' }).fill('{"type":"object"}');
  await t.page.keyboard.press('Escape');
  await t.prompt.press('Enter');
  await t.idle();
  assert.deepEqual(t.server.log.chats[0].response_format.json_schema.schema, { type: 'object' });
  assert.equal(await t.text(t.last().locator('.code code')), '{"answer": 42}');
});

/* ----------------------------------------------------------------------------------------------------------- settings */

test('effort, sampling and the system prompt are sent, and kept', async (t) => {
  await t.page.locator('#effort').selectOption('low');
  await t.button('Settings').click();
  await t.page.getByRole('textbox', { name: 'System prompt' }).fill('Be brief.');
  await t.page.getByRole('textbox', { name: 'Temperature' }).fill('0.5');
  await t.page.getByRole('textbox', { name: 'Seed' }).fill('12');
  await t.page.getByRole('textbox', { name: 'Top p' }).fill('2');
  await t.page.keyboard.press('Tab');
  await t.page.getByText('Top p: 2 is not between 0 and 1').waitFor();
  await t.page.keyboard.press('Escape');
  await t.type('hello');
  await t.page.locator('#notice').getByText('Top p: 2').waitFor();
  await t.reload();
  await t.button('Settings').click();
  await t.page.getByRole('textbox', { name: 'Top p' }).fill('');
  await t.page.keyboard.press('Escape');
  await t.say('hello');
  const { reasoning_effort: effort, temperature, seed, messages, ...rest } = t.server.log.chats[0];
  assert.deepEqual([effort, temperature, seed, messages[0]], ['low', 0.5, 12, { role: 'system', content: 'Be brief.' }]);
  assert.equal('top_p' in rest, false);
  await t.page.locator('#effort').selectOption('number');
  await t.page.locator('#effort-number').fill('0.33');
  await t.say('hello');
  assert.equal(t.server.log.chats[1].reasoning_effort, 0.33);
});

test(
  'an API key is asked for when the server wants one',
  async (t) => {
    await t.type('hello');
    const field = t.page.getByRole('textbox', { name: 'API key' });
    await field.fill('wrong');
    await t.button('Use it').click();
    await t.page.getByText('did not accept').waitFor();
    await field.fill('right');
    await t.button('Use it').click();
    await t.last().getByText('You said: hello').waitFor();
    await t.reload();
    await t.say('still there');
    assert.match(await t.text(t.last()), /You said: still there/);
    await t.page.evaluate(() => sessionStorage.clear());
    await t.reload();
    await t.type('hello');
    await t.button('Close').click();
    await t.last().getByText('an API key is needed').waitFor();
  },
  { server: { key: 'right' } },
);

/* -------------------------------------------------------------------------------------------------------------- media */

test('pictures and sounds are attached, and a refusal is shown', async (t) => {
  const choose = async (...files) => {
    const chooser = t.page.waitForEvent('filechooser');
    await t.button('Attach pictures or sounds').click();
    await (await chooser).setFiles(files);
  };
  await choose({ name: 'dot.png', mimeType: 'image/png', buffer: PIXEL });
  await t.page.locator('#files img').waitFor();
  await t.say('what is this?');
  await t.last().getByText('this model takes no images').waitFor();
  await t.button('Edit message').click();
  await t.page.getByRole('textbox', { name: 'Edit message' }).fill('accept this');
  await t.page.keyboard.press('Enter');
  await t.last().getByText('You said: accept this').waitFor();
  assert.deepEqual(t.server.log.chats[1].messages[0].content, [
    { type: 'image_url', image_url: { url: `data:image/png;base64,${PIXEL.toString('base64')}` } },
    { type: 'text', text: 'accept this' },
  ]);
  await choose(
    { name: 'a.wav', mimeType: 'audio/wav', buffer: SOUND },
    { name: 'x.svg', mimeType: 'image/svg+xml', buffer: Buffer.from('<svg/>') },
  );
  await t.page.locator('#notice').getByText('x.svg is neither a picture nor a sound').waitFor();
  await t.say('');
  assert.deepEqual(t.server.log.chats[2].messages.at(-1).content, [
    { type: 'input_audio', input_audio: { data: SOUND.toString('base64'), format: 'wav' } },
  ]);
  await choose({ name: 'dot.png', mimeType: 'image/png', buffer: PIXEL });
  await t.button('Remove dot.png').click();
  assert.equal(await t.page.locator('#files li').count(), 0);
  await t.reload();
  assert.equal(await t.page.locator('.bubble img').evaluate((i) => i.naturalWidth), 1);
  // From the clipboard, and dropped.
  for (const kind of ['paste', 'drop']) {
    await t.page.evaluate(
      ([name, bytes]) => {
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array(bytes)], `${name}.png`, { type: 'image/png' }));
        const target = document.getElementById('prompt');
        target.dispatchEvent(
          name === 'paste'
            ? new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true })
            : new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }),
        );
      },
      [kind, [...PIXEL]],
    );
    await t.page.locator(`#files img[alt="${kind}.png"]`).waitFor();
  }
});

/* ------------------------------------------------------------------------------------------------------------- errors */

test('errors are shown, and can be tried again', async (t) => {
  for (const [words, shown] of [
    ['refuse', /temperature must be between 0 and 2, found 7/],
    ['busy', /the queue is full\. Try again in 2 s\./],
    ['break', /The connection (broke|ended) before the answer was complete\./],
    ['fail', /the numbers are not finite/],
  ]) {
    await t.say(words);
    assert.match(await t.text(t.last().locator('.end.bad')), shown);
  }
  assert.match(await t.text(t.last()), /Almost/);
  t.server.log.down = true;
  await t.say('hello');
  assert.match(await t.text(t.last()), /The server does not answer/);
  t.server.log.down = false;
  await t.button('Try again').last().click();
  await t.last().getByText('You said: hello').waitFor();
  await t.idle();
  assert.equal(await t.last().locator('.versions').count(), 0); // an answer that said nothing is no version
});

test('a server that went away is said, and its return too', async (t) => {
  await t.page.clock.install();
  await t.reload();
  t.server.log.down = true;
  for (let i = 0; i < 3; i += 1) {
    await t.page.clock.runFor(6000);
    await t.page.waitForTimeout(150);
  }
  await t.page.locator('#offline').waitFor();
  t.server.log.down = false;
  await t.page.clock.runFor(6000);
  await t.page.locator('#offline').waitFor({ state: 'hidden' });
});

/* ------------------------------------------------------------------------------------------------ looks and reach */

test('dark and light: as the system, or as chosen', async (t) => {
  const paper = () => t.page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const light = await paper();
  await t.page.emulateMedia({ colorScheme: 'dark' });
  const dark = await paper();
  assert.notEqual(light, dark);
  await t.button('Theme: as the system').click();
  assert.equal(await paper(), light);
  await t.reload();
  assert.equal(await paper(), light);
  await t.button('Theme: light').click();
  await t.page.emulateMedia({ colorScheme: 'light' });
  assert.equal(await paper(), dark);
  await t.button('Theme: dark').click();
  assert.equal(await paper(), light);
});

test('by keyboard alone', async (t) => {
  const key = (k) => t.page.keyboard.press(k);
  const here = () =>
    t.page.evaluate(
      () => document.activeElement.getAttribute('aria-label') || document.activeElement.id || document.activeElement.innerText,
    );
  const to = async (name) => {
    for (let i = 0; i < 60; i += 1) {
      if ((await here()) === name) return;
      await key('Tab');
    }
    assert.fail(`Tab never reaches ${name}`);
  };
  assert.equal(await here(), 'Message');
  await t.page.keyboard.type('first line');
  await key('Shift+Enter');
  await t.page.keyboard.type('second line');
  await key('Enter');
  await t.idle();
  assert.equal(t.server.log.chats[0].messages[0].content, 'first line\nsecond line');
  assert.equal(await here(), 'Message');
  await to('Settings');
  await key('Enter');
  await t.page.keyboard.type('Short answers.'); // the focus is in the dialog, on the system prompt
  await key('Escape');
  assert.equal(await here(), 'Settings');
  await to('Regenerate answer');
  await key('Enter');
  await t.idle();
  assert.equal(t.server.log.chats[1].messages[0].content, 'Short answers.');
  assert.equal(await here(), 'Message');
  await to('Earlier version');
  await key(' ');
  assert.equal(await here(), 'Later version');
  await to('Edit message');
  await key('Enter');
  await t.page.keyboard.type(' changed');
  await key('Enter');
  await t.idle();
  assert.match(t.server.log.chats[2].messages[1].content, /changed$/);
  await to('new');
  await key('Enter');
  assert.equal(await t.page.locator('.message').count(), 0);
  await to('Delete first line');
  await key('Enter');
  await key('Tab');
  assert.equal(await here(), 'Delete');
  await key('Enter');
  await t.page.getByText('Nothing here yet.').waitFor();
  await t.reload();
  for (let i = 0; i < 30 && !(await here()).startsWith('Skip'); i += 1) await key('Shift+Tab');
  assert.equal(await here(), 'Skip to the message box');
  await key('Enter');
  assert.equal(await here(), 'Message');
});

test('readers hear that an answer began and ended, and nothing between', async (t) => {
  await t.page.evaluate(() => {
    window.heard = [];
    for (const region of document.querySelectorAll('[role=status], [role=alert]')) {
      new MutationObserver(() => {
        if (region.textContent) window.heard.push(region.textContent);
      }).observe(region, { childList: true, characterData: true, subtree: true });
    }
  });
  await t.say('think rich');
  await t.page.waitForTimeout(300);
  const heard = await t.page.evaluate(() => window.heard);
  assert.equal(heard.length, 2, heard.join('\n'));
  assert.equal(heard[0], 'Waiting for the answer');
  assert.match(heard[1], /^Answer complete\. A small tour A paragraph with bold/);
  const live = await t.page.evaluate(
    () =>
      [...document.querySelectorAll('[aria-live], [role=log], [role=status], [role=alert], output')].filter((e) =>
        e.contains(document.querySelector('.message')),
      ).length,
  );
  assert.equal(live, 0);
});

test('axe finds nothing, light and dark', async (t) => {
  await t.check('an empty page');
  await t.say('think rich');
  await t.say('use tools');
  await t.button('Send results').click();
  await t.idle();
  await t.say('refuse');
  await t.button('Try again').click();
  await t.idle();
  for (const colorScheme of ['light', 'dark']) {
    await t.page.emulateMedia({ colorScheme });
    await t.last().locator('.end.bad').hover();
    await t.check(`a conversation, ${colorScheme}`);
    await t.button('Settings').click();
    await t.check(`settings, ${colorScheme}`);
    await t.page.getByRole('textbox', { name: 'Temperature' }).fill('x');
    await t.page.keyboard.press('Tab');
    await t.check(`settings with a mistake, ${colorScheme}`);
    await t.page.getByRole('textbox', { name: 'Temperature' }).fill('');
    await t.page.keyboard.press('Escape');
    await t.button('Edit message').last().click();
    await t.check(`editing, ${colorScheme}`);
    await t.page.keyboard.press('Escape');
    await t.button('Delete think rich').click();
    await t.check(`a question, ${colorScheme}`);
    await t.page.keyboard.press('Escape');
  }
});

test(
  'axe finds nothing while an answer streams, nor on a small screen',
  async (t) => {
    await t.type('slow');
    await t.last().getByText('word word').waitFor();
    await t.check('streaming');
    await t.button('Conversations').click();
    await t.page.waitForTimeout(400);
    await t.check('the column over the messages');
    assert.equal(await t.page.evaluate(() => document.getElementById('main').inert), true);
    await t.page.keyboard.press('Escape');
    assert.equal(await t.page.evaluate(() => document.activeElement.id), 'menu');
    assert.equal(await t.page.evaluate(() => document.getElementById('side').inert), true);
    await t.page.keyboard.press('Escape');
    await t.last().getByText('Stopped.').waitFor();
  },
  { context: { viewport: { width: 360, height: 640 }, hasTouch: true, isMobile: true } },
);

test(
  'small screens scroll one way only',
  async (t) => {
    await t.say('think rich');
    await t.say('hostile');
    await t.say('use tools');
    for (const width of [320, 390, 801]) {
      await t.page.setViewportSize({ width, height: 640 });
      const over = await t.page.evaluate(() =>
        [...document.querySelectorAll('body *')]
          .filter(
            (e) => !e.closest('.table, pre, .math-block, #side, .off-screen, .skip') && e.getBoundingClientRect().right > innerWidth + 1,
          )
          .map((e) => e.className || e.tagName),
      );
      assert.deepEqual(over, [], `${width} px`);
      assert.ok(await t.button('Send').isVisible());
    }
  },
  { context: { viewport: { width: 390, height: 640 } } },
);

test('the end stays in view until one scrolls up', async (t) => {
  await t.say('long');
  const gap = () =>
    t.page.evaluate(() => {
      const s = document.getElementById('scroll');
      return s.scrollHeight - s.scrollTop - s.clientHeight;
    });
  assert.ok((await gap()) < 48);
  await t.type('slow');
  await t.last().getByText('word word').waitFor();
  await t.page.evaluate(() => {
    document.getElementById('scroll').scrollTop = 100;
  });
  await t.button('Go to the latest message').waitFor();
  await t.page.waitForTimeout(400);
  assert.ok((await gap()) > 400);
  await t.button('Go to the latest message').click();
  await t.page.waitForTimeout(300);
  assert.ok((await gap()) < 48);
});

test('meters', async (t) => {
  await t.say('steady');
  await t.page.locator('#meters').getByText('1.23 GB').waitFor();
  const words = await t.text(t.page.locator('#meters'));
  for (const w of [
    /Speed\s+[\d.]+ tok\/s/,
    /First token\s+\d/,
    /Prompt cached\s+\d+ of \d+/,
    /Prefix cache\s+52\.4 MB/,
    /Requests\s+1 running/,
  ])
    assert.match(words, w);
  assert.equal(await t.text(t.page.locator('#model')), 'inkling-mock');
});

const ok = await runAll(startMock, process.argv[2]);
process.exitCode = ok ? 0 : 1;
