// Conversations as trees, as requests, and as files.
import assert from 'node:assert/strict';
import { webcrypto } from 'node:crypto';
import { test } from 'node:test';
import {
  add,
  buildRequest,
  DEFAULTS,
  effortProblem,
  exportText,
  importText,
  lookAt,
  newConversation,
  newMessage,
  NUMBERS,
  path,
  problemOf,
  siblings,
  titleFrom,
} from '../../../web/dist/parts.mjs';

globalThis.crypto ??= webcrypto; // for node 18

let clock = 0;
function say(conv, role, text, parent = conv.leaf, more = {}) {
  const m = Object.assign(newMessage(role, parent), { text, at: (clock += 1), finish: role === 'assistant' ? 'stop' : '' }, more);
  add(conv, m);
  return m;
}

test('versions: nothing that was said is lost', () => {
  const c = newConversation('');
  const u1 = say(c, 'user', 'one');
  const a1 = say(c, 'assistant', 'first');
  const a2 = say(c, 'assistant', 'second', u1.id);
  const u2 = say(c, 'user', 'two');
  const edited = say(c, 'user', 'ONE', null);
  assert.deepEqual(
    path(c).map((m) => m.text),
    ['ONE'],
  );
  assert.deepEqual(
    siblings(c, u1).map((m) => m.text),
    ['one', 'ONE'],
  );
  lookAt(c, u1);
  assert.deepEqual(
    path(c).map((m) => m.text),
    ['one', 'second', 'two'],
  );
  lookAt(c, a1);
  assert.deepEqual(
    path(c).map((m) => m.text),
    ['one', 'first'],
  );
  lookAt(c, edited);
  assert.deepEqual(
    path(c).map((m) => m.text),
    ['ONE'],
  );
  assert.deepEqual(
    siblings(c, a2).map((m) => m.text),
    ['first', 'second'],
  );
  assert.equal(u2.parent, a2.id);
  assert.equal(c.title, 'one');
});

test('requests', () => {
  const c = newConversation('Be brief.');
  say(c, 'user', 'look', null, {
    files: [
      { kind: 'image', name: 'a.png', mime: 'image/png', data: 'AAAA', size: 3 },
      { kind: 'audio', name: 'a', mime: 'audio/mpeg', data: 'BBBB', size: 3 },
    ],
  });
  const a = say(c, 'assistant', '', c.leaf, {
    reasoning: 'hm',
    calls: [
      { id: 'c0', name: 'f', args: '{"a":1}', done: true },
      { id: 'c1', name: 'g', args: '{"b', done: false },
    ],
  });
  say(c, 'tool', '5', a.id, { call: 'c0', name: 'f' });
  say(c, 'assistant', '', c.leaf, { finish: 'error', error: 'x' });
  const body = buildRequest(c, {
    ...DEFAULTS,
    temperature: ' 0.7',
    top_k: '40',
    stop: 'END\n\n##',
    effort: '0.25',
    format: 'json_schema',
    schema: '{"type":"object"}',
    tools: '[{"type":"function"}]',
  });
  assert.deepEqual(body, {
    model: 'default',
    stream: true,
    stream_options: { include_usage: true },
    reasoning_effort: 0.25,
    temperature: 0.7,
    top_k: 40,
    stop: ['END', '##'],
    response_format: { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema: { type: 'object' } } },
    tools: [{ type: 'function' }],
    messages: [
      { role: 'system', content: 'Be brief.' },
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
          { type: 'input_audio', input_audio: { data: 'BBBB', format: 'mp3' } },
          { type: 'text', text: 'look' },
        ],
      },
      {
        role: 'assistant',
        content: null,
        reasoning_content: 'hm',
        tool_calls: [{ id: 'c0', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }],
      },
      { role: 'tool', tool_call_id: 'c0', content: '5' },
    ],
  });
  assert.deepEqual(Object.keys(buildRequest(newConversation(''), DEFAULTS)), ['model', 'messages', 'stream', 'stream_options']);
  assert.equal(buildRequest(c, { ...DEFAULTS, effort: 'none' }).reasoning_effort, 'none');
});

test('settings that cannot be sent are named', () => {
  const c = newConversation('');
  for (const [setting, words] of [
    [{ temperature: 'warm' }, /Temperature: "warm" is not a number/],
    [{ temperature: '3' }, /between 0 and 2/],
    [{ top_k: '1.5' }, /whole number/],
    [{ max_tokens: '0' }, /at least 1/],
    [{ effort: '1.5' }, /Effort/],
    [{ tools: '{' }, /Tools: not JSON/],
    [{ tools: '{}' }, /JSON list/],
    [{ format: 'json_schema' }, /Schema: it is empty/],
    [{ format: 'json_schema', schema: '[]' }, /JSON object/],
  ]) {
    assert.throws(() => buildRequest(c, { ...DEFAULTS, ...setting }), words);
  }
  const seed = NUMBERS.find((f) => f.key === 'seed');
  for (const bad of ['0x10', '1e400', 'NaN', '-1', '1,5', '9007199254740993']) assert.notEqual(problemOf(seed, bad), null, bad);
  for (const good of ['', ' 7 ', '1e3']) assert.equal(problemOf(seed, good), null, good);
  for (const bad of ['1', '-0.1', 'High', 'x']) assert.notEqual(effortProblem(bad), null, bad);
  for (const good of ['', 'xhigh', '0', '0.99']) assert.equal(effortProblem(good), null, good);
});

test('export and import are each other’s inverse', () => {
  const c = newConversation('sys');
  say(c, 'user', 'hi', null, { files: [{ kind: 'image', name: '<b>', mime: 'image/png', data: 'AA==', size: 1 }] });
  say(c, 'assistant', 'ho', c.leaf, {
    stats: { first_s: 1, total_s: 2, decode_s: 1, think_s: 0, prompt: 3, cached: 1, tokens: 4, reasoning: 0, counted: true },
  });
  assert.deepEqual(importText(exportText([c, newConversation('')]))[0], c);
});

test('a damaged file says where', () => {
  const good = () =>
    JSON.parse(
      exportText([
        (() => {
          const c = newConversation('');
          say(c, 'user', 'a');
          say(c, 'assistant', 'b');
          return c;
        })(),
      ]),
    );
  const broken = (change) => {
    const f = good();
    change(f, f.conversations[0], f.conversations[0].messages);
    return JSON.stringify(f);
  };
  for (const [file, words] of [
    ['{', /not JSON/],
    ['[]', /not an object/],
    ['{"format":"x"}', /format/],
    [
      broken((f) => {
        f.version = 2;
      }),
      /version 2/,
    ],
    [
      broken((f, c) => {
        c.id = '__proto__';
      }),
      /\.id is not an id/,
    ],
    [
      broken((f, c, m) => {
        m[0].role = 'root';
      }),
      /messages\[0\]\.role/,
    ],
    [
      broken((f, c, m) => {
        m[0].parent = m[1].id;
      }),
      /their own parents/,
    ],
    [
      broken((f, c, m) => {
        m[0].parent = 'abc';
      }),
      /not there/,
    ],
    [
      broken((f, c) => {
        c.leaf = 'abc';
      }),
      /leaf names no message/,
    ],
    [
      broken((f, c, m) => {
        m[0].files = [{ kind: 'image', name: '', mime: 'text/html', data: '', size: 0 }];
      }),
      /files\[0\]\.mime/,
    ],
    [
      broken((f, c, m) => {
        m[1].text = 5;
      }),
      /messages\[1\]\.text is not a text/,
    ],
    [
      broken((f, c, m) => {
        m.push({ ...m[0] });
      }),
      /comes twice/,
    ],
    [
      broken((f, c, m) => {
        m[0].at = null;
      }),
      /not a number/,
    ],
  ]) {
    assert.throws(() => importText(file), words);
  }
  const extra = broken((f, c, m) => {
    m[0].onload = 'x';
  });
  assert.equal('onload' in [...importText(extra)[0].messages.values()][0], false);
});

test('titles', () => {
  assert.equal(titleFrom({ text: '\n\n  hello there \nmore', files: [] }), 'hello there');
  assert.equal(Array.from(titleFrom({ text: '😀'.repeat(80), files: [] })).length, 60);
  assert.equal(titleFrom({ text: '', files: [{ name: 'cat.png' }] }), 'cat.png');
});
