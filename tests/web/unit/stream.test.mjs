// From bytes to a message: the SSE reader, however its bytes are cut, and the turn that its events make.
import assert from 'node:assert/strict';
import { webcrypto } from 'node:crypto';
import { test } from 'node:test';
import { errorText, newMessage, parseMetrics, perSecond, SseReader, Turn } from '../../../web/dist/parts.mjs';

globalThis.crypto ??= webcrypto; // for node 18

const bytes = (s) => new TextEncoder().encode(s);

test('events come out however the bytes are cut', () => {
  const stream = bytes(
    '\uFEFF: hello\ndata: {"a":"é😀"}\r\n\r\nevent: x\rdata:one\rdata: two\r\rid: 3\nretry: 5\ndata\n\n\n\ndata:  [DONE]\n\ndata: cut',
  );
  const want = [
    { event: 'message', data: '{"a":"é😀"}' },
    { event: 'x', data: 'one\ntwo' },
    { event: 'message', data: '' },
    { event: 'message', data: ' [DONE]' },
  ];
  for (let size = 1; size <= stream.length; size += 1) {
    const r = new SseReader();
    const got = [];
    for (let i = 0; i < stream.length; i += size) got.push(...r.push(stream.slice(i, i + size)));
    assert.deepEqual(got, want, `pieces of ${size}`);
    assert.deepEqual(r.end(), { cut: true });
  }
});

test('a whole stream is not cut', () => {
  const r = new SseReader();
  assert.equal(r.push(bytes('data: x\n\n')).length, 1);
  assert.deepEqual(r.end(), { cut: false });
});

test('an endless event is refused', () => {
  const r = new SseReader();
  const mb = bytes('x'.repeat(1 << 20));
  assert.throws(() => {
    for (let i = 0; i < 20; i += 1) r.push(mb);
  }, /longer than 16 MB/);
});

const chunk = (delta, more = {}) => JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null, ...more }] });

test('reasoning, text and calls of a turn', () => {
  const m = newMessage('assistant', null);
  const t = new Turn(m, 1000);
  t.push(chunk({ role: 'assistant', content: '' }), 1100);
  t.push(chunk({ reasoning_content: 'hm' }), 1500);
  assert.equal(t.thinking, true);
  t.push(chunk({ content: 'Hel' }), 2000);
  t.push(chunk({ content: 'lo' }), 2500);
  assert.equal(t.thinking, false);
  t.push(chunk({ tool_calls: [{ index: 0, id: 'c0', function: { name: 'f', arguments: '' } }] }), 2600);
  t.push(
    chunk({
      tool_calls: [
        { index: 0, function: { arguments: '{"a":' } },
        { index: 1, id: 'c1', function: { name: 'g', arguments: '{"b"' } },
      ],
    }),
    2700,
  );
  t.push(chunk({ tool_calls: [{ index: 0, function: { arguments: '1}' } }] }), 2800);
  t.push(chunk({}, { finish_reason: 'length' }), 2900);
  t.push(
    JSON.stringify({
      choices: [],
      usage: {
        prompt_tokens: 9,
        completion_tokens: 14,
        prompt_tokens_details: { cached_tokens: 4 },
        completion_tokens_details: { reasoning_tokens: 2 },
      },
    }),
    2950,
  );
  t.end(3000);
  assert.deepEqual([m.reasoning, m.text, m.finish], ['hm', 'Hello', 'length']);
  assert.deepEqual(m.calls, [
    { id: 'c0', name: 'f', args: '{"a":1}', done: true },
    { id: 'c1', name: 'g', args: '{"b"', done: false },
  ]);
  assert.deepEqual(m.stats, {
    first_s: 0.5,
    total_s: 2,
    decode_s: 1.3,
    think_s: 0.5,
    prompt: 9,
    cached: 4,
    tokens: 14,
    reasoning: 2,
    counted: true,
  });
  assert.equal(perSecond(m), 10);
});

test('errors within a stream', () => {
  const t = new Turn(newMessage('assistant', null), 0);
  assert.throws(() => t.push('{"error":{"message":"broke","param":"x"}}', 1), /broke \(x\)/);
  assert.throws(() => t.push('not json', 1), /not JSON/);
  assert.equal(errorText({ detail: 1 }), '{"detail":1}');
  assert.equal(errorText('plain'), 'plain');
});

test('metrics', () => {
  const m = parseMetrics('# HELP a b\na 1\nb{x="1}",y="\\""} 2\nb{x="2"} 3e2 1700000000\nc NaN\nd +Inf\nbroken\n');
  assert.deepEqual(
    [...m],
    [
      ['a', 1],
      ['b', 302],
      ['d', Infinity],
    ],
  );
});
