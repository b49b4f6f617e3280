// differential.mjs: our ids against npm tiktoken's (o200k_base), through tok_dump.
//
// node differential.mjs TOK_DUMP VOCABULARY [--full] [--seed N] [FILE_OR_FOLDER...]
//
// Always: every Unicode code point in several contexts, random hostile strings, and the text files given (quick: 4 MB of them; full: all).
// Run fetch-oracle.sh, and for text fetch-corpus.sh, before. Ends with 77 when the oracle or the vocabulary is
// not there, 1 on a difference.
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';

const root = path.join(path.dirname(fileURLToPath(import.meta.url)), '../..');
const oraclePath = path.join(root, '.cache/tiktoken/package');
const CHUNK = 1 << 15; // characters of text per comparison

// The program at the other end of a pipe: ids(buffer) gives a promise of its answer, in order.
class Ours {
  constructor(program, vocabulary) {
    this.waiting = [];
    this.input = Buffer.alloc(0);
    this.child = spawn(program, [vocabulary], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.child.stdout.on('data', (data) => this.receive(data));
    this.child.on('exit', (code) => { if (code !== 0) throw new Error(`tok_dump ended with ${code}`); });
  }
  ids(bytes) {
    const head = Buffer.alloc(4);
    head.writeUInt32LE(bytes.length);
    this.child.stdin.write(Buffer.concat([head, bytes]));
    return new Promise((resolve) => this.waiting.push(resolve));
  }
  receive(data) {
    this.input = this.input.length ? Buffer.concat([this.input, data]) : data;
    while (this.input.length >= 4) {
      const n = this.input.readUInt32LE(0), end = 4 + 4 * n;
      if (this.input.length < end) return;
      this.waiting.shift()(this.input.subarray(4, end));
      this.input = this.input.subarray(end);
    }
  }
  close() { this.child.stdin.end(); }
}

// splitmix32: the same strings for the same seed everywhere.
function generator(seed) {
  let state = seed >>> 0;
  return (n) => {
    state = (state + 0x9e3779b9) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return ((z ^ (z >>> 15)) >>> 0) % n;
  };
}

const contexts = [(c) => c, (c) => 'a' + c, (c) => c + 'a', (c) => 'A' + c + 'b', (c) => ' ' + c, (c) => '  ' + c + ' ',
  (c) => '1' + c + '1',
  (c) => "x'" + c, (c) => c + "'s", (c) => c + '\n', (c) => '!' + c + '/', (c) => 'B' + c + 'C', (c) => c + c + 'A', (c) => "'" + c + 'll',
  (c) => '12' + c + '34', (c) => '\r' + c + '\u0301', (c) => '\u65e5' + c + '\u65e5', (c) => c + ' ' + c + '  x'];

// Every code point; in the quick run those of the planes that hold nothing but private and unassigned ones see fewer contexts.
function* codePoints(full) {
  const few = [contexts[3], contexts[6], contexts[13]], many = contexts.slice(0, 12);
  for (let start = 0; start < 0x110000; start += 16) {
    if (start >= 0xd800 && start < 0xe000) continue; // no surrogates in text
    const used = full ? contexts : start < 0x33480 || (start >= 0xe0000 && start < 0xe0200) ? many : few;
    const texts = [];
    for (let c = start; c < start + 16; c++) {
      const s = String.fromCodePoint(c);
      texts.push(used.map((f) => f(s)).join('\n'));
    }
    yield { text: texts.join('\n'), name: `code points from U+${start.toString(16)}` };
  }
  for (let c = 0; c < (full ? 0x110000 : 0x3400); c++) { // with nothing before or after
    if (c >= 0xd800 && c < 0xe000) continue;
    yield { text: ' ' + String.fromCodePoint(c), name: `U+${c.toString(16)} at the end` };
    yield { text: String.fromCodePoint(c), name: `U+${c.toString(16)} alone` };
  }
}

const hostile = [...'aAbBzZ09 \t\n\r/!\'"-_.,()[]', '  ', '   ', "'s", "'S", "'ll", "'RE", "'ve", "'d", 'the', ' the', 'ing', 
  'É', 'é', 'ß', 'ǅ', 'ʰ', 'ª', '日', '本',
  'ー', '\u0301', '\u0e34', '\u0e01', '\u0915', '\u093f', '\u200b', '\u200d', '\ufeff', '\u00a0', '\u3000', '\u2028', '\u0085',
  '٣', 'Ⅷ', '½', '🙂', '👨', 'я', 'Я', 'ك', '한', '\u0000', '\ufffd'];

function* randomStrings(count, seed) {
  const random = generator(seed);
  for (let i = 0; i < count; i++) {
    let text = '';
    for (let n = 1 + random(30); n > 0; n--) {
      let c = random(0x110000);
      if (random(12) > 0) text += hostile[random(hostile.length)];
      else text += String.fromCodePoint(c >= 0xd800 && c < 0xe000 ? 0x41 : random(2) ? c : c % 0x3000);
    }
    yield { text, name: `random string ${i} of seed ${seed}` };
  }
}

function* fileChunks(files, limit) {
  for (const file of files) {
    const text = fs.readFileSync(file, 'utf8').slice(0, limit);
    for (let at = 0; at < text.length;) {
      let end = Math.min(at + CHUNK, text.length);
      if (end < text.length && (text.charCodeAt(end) & 0xfc00) === 0xdc00) end++; // not inside a character
      yield { text: text.slice(at, end), name: `${file}, characters ${at} to ${end}` };
      at = end;
    }
  }
}

function textFiles(file) {
  if (!fs.statSync(file).isDirectory()) return [file];
  return fs.readdirSync(file).filter((f) => f.endsWith('.txt')).sort().map((f) => path.join(file, f));
}

function report(name, text, theirs, ours) {
  let i = 0;
  while (i < theirs.length && theirs[i] === ours[i]) i++;
  console.error(`DIFFERENT: ${name}: id ${i} is ${ours[i]}, expected ${theirs[i]}`);
  console.error(`  text ${JSON.stringify(text.length > 300 ? text.slice(0, 300) + '...' : text)}`);
  console.error(`  ours     ${[...ours.slice(Math.max(0, i - 5), i + 8)]}\n  expected ${[...theirs.slice(Math.max(0, i - 5), i + 8)]}`);
}

async function compare(title, encoder, ours, items) {
  const start = Date.now();
  let n = 0, bytes = 0, different = 0, batch = [];
  const settle = async () => {
    for (const { name, text, theirs, promise } of batch) {
      const raw = await promise;
      if (raw.equals(Buffer.from(theirs.buffer, theirs.byteOffset, theirs.byteLength))) continue;
      if (different++ < 10) report(name, text, theirs, new Uint32Array(raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.length)));
    }
    batch = [];
  };
  for (const { text, name } of items) {
    const utf8 = Buffer.from(text, 'utf8');
    const promise = ours.ids(utf8);
    batch.push({ name, text, theirs: encoder.encode_ordinary(text), promise });
    n++;
    bytes += utf8.length;
    if (batch.length >= 256) await settle();
  }
  await settle();
  const seconds = ((Date.now() - start) / 1000).toFixed(1);
  console.log(`${title}: ${n} texts, ${(bytes / 1e6).toFixed(1)} MB, ${different} different (${seconds} s)`);
  return different;
}

async function main() {
  const args = process.argv.slice(2);
  const full = args.includes('--full');
  const seedAt = args.indexOf('--seed');
  const seed = seedAt < 0 ? 1 : Number(args.splice(seedAt, 2)[1]);
  const [program, vocabulary, ...files] = args.filter((a) => a !== '--full');
  if (!program || !vocabulary) {
    console.error('usage: differential.mjs TOK_DUMP VOCABULARY [--full] [--seed N] [FILE_OR_FOLDER...]');
    return 2;
  }
  if (!fs.existsSync(vocabulary) || !fs.existsSync(oraclePath)) {
    console.log('skipped: scripts/fetch-vocab.sh and tests/tokenizer/fetch-oracle.sh fetch what this test needs');
    return 77;
  }
  const encoder = createRequire(import.meta.url)(oraclePath).get_encoding('o200k_base');
  const ours = new Ours(program, vocabulary);
  const present = files.filter((f) => fs.existsSync(f)).flatMap(textFiles);
  let different = await compare('code points', encoder, ours, codePoints(full));
  different += await compare(`random strings, seed ${seed}`, encoder, ours, randomStrings(full ? 500000 : 40000, seed));
  const limit = full ? Infinity : Math.ceil(4e6 / present.length);
  if (present.length) different += await compare('files', encoder, ours, fileChunks(present, limit));
  ours.close();
  return different ? 1 : 0;
}

process.exitCode = await main();
