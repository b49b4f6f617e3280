/* markdown.ts: text of a model -> a tree of blocks and spans. Pure: it never sees the page, so what it can express is all that a model
 * can ever put there; HTML in the text is text, pictures become links, a link is http or https or it is text.
 *
 * The dialect is the part of CommonMark and GFM that models write: headings with #, paragraphs, fenced code, quotes, lists, tables, rules,
 * emphasis, code spans, links. Left out because half of an answer would change its look while it streams: setext headings, indented code,
 * reference links. Maths ($, $$, \( \), \[ \]) is kept letter by letter. Every pass is linear, or its depth is bounded, on any input.
 */

export type Span =
  | { t: 'text'; s: string }
  | { t: 'code'; s: string }
  | { t: 'math'; s: string }
  | { t: 'strong' | 'em' | 'del'; c: Span[] }
  | { t: 'link'; href: string; c: Span[] }
  | { t: 'br' };

export type Align = '' | 'left' | 'center' | 'right';

export type Block =
  | { t: 'p'; src: string }
  | { t: 'h'; level: number; src: string }
  | { t: 'code'; lang: string; s: string; open: boolean }
  | { t: 'math'; s: string }
  | { t: 'quote'; c: Block[] }
  | { t: 'list'; ordered: boolean; start: number; tight: boolean; items: Item[] }
  | { t: 'table'; align: Align[]; head: string[]; rows: string[][] }
  | { t: 'hr' };

export interface Item {
  task: boolean | null;
  c: Block[];
}

const MAX_DEPTH = 12; // of quotes and lists; what lies deeper is text
const MAX_SPANS_DEPTH = 16;
const MAX_COLUMNS = 64;

/* ------------------------------------------------------------------------------------------------------------ blocks */

const FENCE = /^( {0,3})(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?![^ \t])(.*)$/;
const RULE = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const MARKER = /^( {0,3})(?:([-*+])|(\d{1,9})([.)]))(?:([ \t]+)(?=\S)|[ \t]*$)/;
const DELIMITER_ROW = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;

export function parseBlocks(text: string): Block[] {
  const lines = text.replace(/\r\n?/g, '\n').replace(/\0/g, '\uFFFD').split('\n');
  const blocks = blocksOf(lines, 0);
  rankHeadings(blocks);
  return blocks;
}

// A model may start with ### and go on with #: what counts is which heading stands below which, without gaps.
function rankHeadings(blocks: Block[]): void {
  const open: number[] = [];
  for (const b of blocks) {
    if (b.t !== 'h') continue;
    while (open.length > 0 && open[open.length - 1]! >= b.level) open.pop();
    open.push(b.level);
    b.level = open.length;
  }
}

function blank(line: string): boolean {
  return /^[ \t]*$/.test(line);
}

function indentOf(line: string): number {
  let n = 0;
  for (const ch of line) {
    if (ch === ' ') n += 1;
    else if (ch === '\t') n += 4 - (n % 4);
    else break;
  }
  return n;
}

// Takes up to n columns of white space away.
function dedent(line: string, n: number): string {
  let columns = 0;
  let i = 0;
  while (i < line.length && columns < n && (line[i] === ' ' || line[i] === '\t')) {
    columns += line[i] === '\t' ? 4 - (columns % 4) : 1;
    i += 1;
  }
  return ' '.repeat(Math.max(0, columns - n)) + line.slice(i);
}

function blocksOf(lines: string[], depth: number): Block[] {
  const out: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at]!;
    if (blank(line)) {
      at += 1;
      continue;
    }
    at = special(lines, at, depth, out) ?? paragraph(lines, at, depth, out);
  }
  return out;
}

// Everything but a paragraph: returns the line after it, or null.
function special(lines: string[], at: number, depth: number, out: Block[]): number | null {
  const line = lines[at]!;
  const fence = FENCE.exec(line);
  if (fence) return fenced(lines, at, fence, out);
  const heading = HEADING.exec(line);
  if (heading) {
    out.push({ t: 'h', level: heading[1]!.length, src: withoutClosing(heading[2]!.trim()) });
    return at + 1;
  }
  if (RULE.test(line)) {
    out.push({ t: 'hr' });
    return at + 1;
  }
  const math = displayMath(lines, at, out);
  if (math !== null) return math;
  if (depth < MAX_DEPTH) {
    if (/^ {0,3}>/.test(line)) return quote(lines, at, depth, out);
    if (MARKER.test(line)) return list(lines, at, depth, out);
  }
  if (isTable(lines, at)) return table(lines, at, out);
  return null;
}

// "# Title ##" is "Title".
function withoutClosing(s: string): string {
  let n = s.length;
  while (n > 0 && s[n - 1] === '#') n -= 1;
  return n === 0 ? '' : n < s.length && /[ \t]/.test(s[n - 1]!) ? s.slice(0, n).trimEnd() : s;
}

function fenced(lines: string[], at: number, fence: RegExpExecArray, out: Block[]): number {
  const indent = fence[1]!.length;
  const mark = fence[2]!;
  const body: string[] = [];
  let open = true;
  let i = at + 1;
  for (; i < lines.length; i += 1) {
    const m = /^ {0,3}(`{3,}|~{3,})[ \t]*$/.exec(lines[i]!);
    if (m && m[1]![0] === mark[0] && m[1]!.length >= mark.length) {
      open = false;
      i += 1;
      break;
    }
    body.push(indent ? dedent(lines[i]!, indent) : lines[i]!);
  }
  const lang = /^[^\s{]*/.exec(fence[3]!.trim())![0].slice(0, 40);
  out.push({ t: 'code', lang, s: body.join('\n'), open });
  return i;
}

// $$ ... $$ or \[ ... \] that begins a line. Unclosed, it is maths up to the next empty line.
function displayMath(lines: string[], at: number, out: Block[]): number | null {
  const begin = /^ {0,3}(\$\$|\\\[)/.exec(lines[at]!);
  if (!begin) return null;
  const close = begin[1] === '$$' ? '$$' : '\\]';
  const rest = lines[at]!.slice(begin[0].length);
  const same = rest.indexOf(close);
  if (same >= 0) {
    if (!blank(rest.slice(same + 2))) return null; // words follow: a paragraph with maths in it
    out.push({ t: 'math', s: lines[at]!.trim() });
    return at + 1;
  }
  const body = [lines[at]!];
  let i = at + 1;
  for (; i < lines.length && !blank(lines[i]!); i += 1) {
    body.push(lines[i]!);
    if (lines[i]!.trimEnd().endsWith(close)) {
      i += 1;
      break;
    }
  }
  out.push({ t: 'math', s: body.join('\n').trim() });
  return i;
}

function quote(lines: string[], at: number, depth: number, out: Block[]): number {
  const body: string[] = [];
  let i = at;
  for (; i < lines.length; i += 1) {
    const m = /^ {0,3}> ?/.exec(lines[i]!);
    if (m) body.push(lines[i]!.slice(m[0].length));
    else if (blank(lines[i]!) || interrupts(lines, i, depth)) break;
    else body.push(lines[i]!); // lazy continuation
  }
  out.push({ t: 'quote', c: blocksOf(body, depth + 1) });
  return i;
}

function list(lines: string[], at: number, depth: number, out: Block[]): number {
  const first = MARKER.exec(lines[at]!)!;
  const kind = first[2] ?? first[4]!;
  const items: Item[] = [];
  let tight = true;
  let i = at;
  while (i < lines.length) {
    const m = MARKER.exec(lines[i]!);
    if (!m || (m[2] ?? m[4]) !== kind || RULE.test(lines[i]!)) break;
    // Content begins after the marker and one blank; more blanks than four are content.
    const pad = m[5] === undefined ? 1 : m[5].length > 4 ? 1 : m[5].length;
    const width = m[0].length - (m[5]?.length ?? 0);
    const content = (m[5] === undefined ? m[0].trimEnd().length : width) + pad;
    const body = [lines[i]!.slice(Math.min(content, lines[i]!.length))];
    i += 1;
    let gap = false;
    let fence = fenceAfter('', body[0]!);
    for (; i < lines.length; i += 1) {
      const line = lines[i]!;
      if (blank(line)) {
        gap = true;
        body.push('');
      } else if (indentOf(line) >= content || (indentOf(line) >= 2 && indentOf(line) > m[1]!.length)) {
        // Models indent by two where three are due ("1. " has a width of three): any deeper line belongs to the item.
        if (gap && fence === '') tight = false;
        body.push(dedent(line, Math.min(content, indentOf(line))));
        fence = fenceAfter(fence, body[body.length - 1]!);
        gap = false;
      } else if (gap || MARKER.test(line) || interrupts(lines, i, depth)) {
        break;
      } else {
        body.push(line);
      }
    }
    const goesOn = i < lines.length && MARKER.test(lines[i]!) && !RULE.test(lines[i]!);
    if (gap && goesOn) tight = false;
    while (body.length > 1 && body[body.length - 1] === '') body.pop();
    const task = /^\[([ xX])\][ \t]+/.exec(body[0]!);
    if (task) body[0] = body[0]!.slice(task[0].length);
    items.push({ task: task ? task[1] !== ' ' : null, c: blocksOf(body, depth + 1) });
  }
  out.push({ t: 'list', ordered: first[3] !== undefined, start: Number(first[3] ?? 1), tight, items });
  return i;
}

// The fence that is open after a line, when `mark` was before it.
function fenceAfter(mark: string, line: string): string {
  const m = /^ {0,3}(`{3,}|~{3,})/.exec(line);
  if (!m) return mark;
  if (mark === '') return m[1]!;
  return m[1]![0] === mark[0] && m[1]!.length >= mark.length ? '' : mark;
}

// What may begin right after a line of a paragraph. A number only as "1.", so that a year at a line's start is no list.
function interrupts(lines: string[], at: number, depth: number): boolean {
  const line = lines[at]!;
  if (FENCE.test(line) || HEADING.test(line) || RULE.test(line) || /^ {0,3}(\$\$|\\\[)/.test(line)) return true;
  if (depth < MAX_DEPTH) {
    if (/^ {0,3}>/.test(line)) return true;
    const m = MARKER.exec(line);
    if (m && m[5] !== undefined && (m[3] === undefined || m[3] === '1')) return true;
  }
  return isTable(lines, at);
}

function paragraph(lines: string[], at: number, depth: number, out: Block[]): number {
  let i = at + 1;
  while (i < lines.length && !blank(lines[i]!) && !interrupts(lines, i, depth)) i += 1;
  // Spaces at a line's end say "break here"; at its start they say nothing.
  out.push({
    t: 'p',
    src: lines
      .slice(at, i)
      .map((l) => l.replace(/^[ \t]+/, ''))
      .join('\n')
      .trimEnd(),
  });
  return i;
}

function isTable(lines: string[], at: number): boolean {
  const head = lines[at]!;
  const rule = lines[at + 1];
  if (rule === undefined || !head.includes('|') || !rule.includes('-') || !DELIMITER_ROW.test(rule)) return false;
  const n = cells(rule).length;
  return n <= MAX_COLUMNS && (rule.includes('|') || n === 1) && cells(head).length === n;
}

function cells(row: string): string[] {
  const s = row.trim();
  const out: string[] = [];
  let cell = '';
  let code = false;
  const lastTick = s.lastIndexOf('`');
  for (let i = s.startsWith('|') ? 1 : 0; i < s.length; i += 1) {
    const ch = s[i]!;
    if (ch === '\\' && s[i + 1] === '|') {
      cell += '|';
      i += 1;
    } else if (ch === '|') {
      if (lastTick < i) code = false;
      if (code) cell += ch;
      else {
        out.push(cell.trim());
        cell = '';
      }
    } else {
      if (ch === '`') code = !code;
      cell += ch;
    }
  }
  if (cell.trim() !== '' || !s.endsWith('|')) out.push(cell.trim());
  return out;
}

function table(lines: string[], at: number, out: Block[]): number {
  const head = cells(lines[at]!);
  const align = cells(lines[at + 1]!).map((c): Align => {
    const l = c.startsWith(':');
    const r = c.endsWith(':');
    return l && r ? 'center' : r ? 'right' : l ? 'left' : '';
  });
  const rows: string[][] = [];
  let i = at + 2;
  for (; i < lines.length && !blank(lines[i]!) && lines[i]!.includes('|'); i += 1) {
    const row = cells(lines[i]!);
    // A row that is too long keeps its text in the last cell: nothing is dropped.
    if (row.length > head.length) row.splice(head.length - 1, row.length, row.slice(head.length - 1).join(' | '));
    while (row.length < head.length) row.push('');
    rows.push(row);
  }
  out.push({ t: 'table', align, head, rows });
  return i;
}

/* ------------------------------------------------------------------------------------------------------------- spans */

export function parseSpans(src: string): Span[] {
  return new Spans(src).run();
}

export function safeUrl(url: string): string | null {
  if (/[\u0000-\u0020\u007f<>"\\^`{|}]/.test(url) || !/^https?:\/\/[^/]/i.test(url)) return null;
  try {
    const u = new URL(url);
    return u.protocol === 'http:' || u.protocol === 'https:' ? u.href : null;
  } catch {
    return null;
  }
}

interface Mark {
  node: number; // index in nodes of its text
  ch: string;
  n: number;
  opens: boolean;
  closes: boolean;
}

type Piece = Span | { t: 'bracket'; image: boolean; s: string };

const PUNCTUATION = /[\p{P}\p{S}]/u;
const NAMED: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0' };

class Spans {
  private i = 0;
  private readonly out: Piece[] = [];
  private readonly marks: Mark[] = [];
  private brackets: number[] = []; // indices in out of open [
  private text = '';
  private readonly noRun = new Set<number>(); // lengths of backtick runs that do not come again
  private readonly noClose = new Set<string>(); // ends of maths that do not come again

  constructor(
    private readonly s: string,
    private readonly depth = 0,
  ) {}

  run(): Span[] {
    while (this.i < this.s.length) this.step();
    this.flush();
    return this.finish(this.out, this.marks);
  }

  private flush(): void {
    if (this.text) this.out.push({ t: 'text', s: this.text });
    this.text = '';
  }

  private put(span: Piece): void {
    this.flush();
    this.out.push(span);
  }

  private step(): void {
    const ch = this.s[this.i]!;
    switch (ch) {
      case '\\':
        return this.backslash();
      case '`':
        return this.code();
      case '$':
        return this.dollar();
      case '*':
      case '_':
      case '~':
        return this.delimiter(ch);
      case '[':
        return this.open(false);
      case '!':
        return this.s[this.i + 1] === '[' ? this.open(true) : this.plain();
      case ']':
        return this.close();
      case '<':
        return this.angle();
      case '&':
        return this.entity();
      case '\n':
        return this.newline();
      case 'h':
      case 'H':
        return this.bare();
      default:
        return this.plain();
    }
  }

  private plain(): void {
    const from = this.i;
    this.i += 1;
    while (this.i < this.s.length && !/[\\`$*_~[\]!<&\nhH]/.test(this.s[this.i]!)) this.i += 1;
    this.text += this.s.slice(from, this.i);
  }

  private backslash(): void {
    const next = this.s[this.i + 1];
    if (next === '(' || next === '[') {
      const close = next === '(' ? '\\)' : '\\]';
      const end = this.noClose.has(close) ? -1 : this.s.indexOf(close, this.i + 2);
      if (end >= 0) return this.math(end + 2);
      this.noClose.add(close);
    }
    if (next === '\n') {
      this.i += 2;
      return this.put({ t: 'br' });
    }
    if (next !== undefined && /[!-/:-@[-`{-~]/.test(next)) {
      this.text += next;
      this.i += 2;
      return;
    }
    this.text += '\\';
    this.i += 1;
  }

  private math(end: number): void {
    this.put({ t: 'math', s: this.s.slice(this.i, end) });
    this.i = end;
  }

  // $x$ is maths when nothing blank touches the signs inside and no digit follows: prices stay prices.
  private dollar(): void {
    if (this.s[this.i + 1] === '$') {
      const end = this.s.indexOf('$$', this.i + 2);
      if (end > this.i + 2) return this.math(end + 2);
    } else if (/\S/.test(this.s[this.i + 1] ?? ' ')) {
      const limit = Math.min(this.s.length, this.i + 400);
      for (let k = this.i + 1; k < limit && this.s[k] !== '\n'; k += 1) {
        if (this.s[k] === '\\') k += 1;
        else if (this.s[k] === '$') {
          if (/\S/.test(this.s[k - 1]!) && !/[0-9]/.test(this.s[k + 1] ?? '')) return this.math(k + 1);
          break;
        }
      }
    }
    this.text += '$';
    this.i += 1;
  }

  private code(): void {
    let n = 1;
    while (this.s[this.i + n] === '`') n += 1;
    if (!this.noRun.has(n)) {
      for (let k = this.i + n; ;) {
        k = this.s.indexOf('`', k);
        if (k < 0) {
          this.noRun.add(n);
          break;
        }
        let m = 1;
        while (this.s[k + m] === '`') m += 1;
        if (m === n) {
          let body = this.s.slice(this.i + n, k).replace(/\n/g, ' ');
          if (/^ .* $/.test(body) && body.trim() !== '') body = body.slice(1, -1);
          this.put({ t: 'code', s: body });
          this.i = k + m;
          return;
        }
        k += m;
      }
    }
    this.text += this.s.slice(this.i, this.i + n);
    this.i += n;
  }

  private delimiter(ch: string): void {
    let n = 1;
    while (this.s[this.i + n] === ch) n += 1;
    const before = this.s[this.i - 1] ?? ' ';
    const after = this.s[this.i + n] ?? ' ';
    const run = this.s.slice(this.i, this.i + n);
    this.i += n;
    if (ch === '~' && n !== 2) {
      this.text += run;
      return;
    }
    const left = !/\s/.test(after) && (!PUNCTUATION.test(after) || /\s/.test(before) || PUNCTUATION.test(before));
    const right = !/\s/.test(before) && (!PUNCTUATION.test(before) || /\s/.test(after) || PUNCTUATION.test(after));
    const opens = left && (ch !== '_' || !right || PUNCTUATION.test(before));
    const closes = right && (ch !== '_' || !left || PUNCTUATION.test(after));
    this.put({ t: 'text', s: run });
    if (opens || closes) this.marks.push({ node: this.out.length - 1, ch, n, opens, closes });
  }

  private open(image: boolean): void {
    const s = image ? '![' : '[';
    this.put({ t: 'bracket', image, s });
    this.brackets.push(this.out.length - 1);
    this.i += s.length;
  }

  private close(): void {
    const from = this.brackets.pop();
    const m = from === undefined ? null : target(this.s, this.i + 1);
    const href = m ? safeUrl(m.url) : null;
    if (from === undefined || !m || href === null || this.depth >= MAX_SPANS_DEPTH) {
      this.text += ']';
      this.i += 1;
      return;
    }
    this.flush();
    const bracket = this.out[from] as { image: boolean };
    const inner = this.out.splice(from + 1);
    let first = this.marks.length;
    while (first > 0 && this.marks[first - 1]!.node > from) first -= 1;
    const marks = this.marks.splice(first).map((k) => ({ ...k, node: k.node - from - 1 }));
    this.out.pop();
    let c = flat(this.finish(inner, marks), 'link');
    if (bracket.image) c = [{ t: 'text', s: `image: ${plainText(c) || href}` }]; // pictures are not fetched
    if (c.length === 0) c = [{ t: 'text', s: href }];
    this.out.push({ t: 'link', href, c });
    this.i = m.end;
    if (!bracket.image) this.brackets = []; // no links inside links
  }

  private angle(): void {
    const m = /^<(https?:\/\/[^\s<>]{1,2000})>/i.exec(this.s.slice(this.i, this.i + 2010));
    const href = m ? safeUrl(m[1]!) : null;
    if (m && href !== null) {
      this.put({ t: 'link', href, c: [{ t: 'text', s: m[1]! }] });
      this.i += m[0].length;
      return;
    }
    const br = /^<br\s*\/?>/i.exec(this.s.slice(this.i, this.i + 12)); // the one tag that models write in tables
    if (br) {
      this.put({ t: 'br' });
      this.i += br[0].length;
      return;
    }
    this.text += '<';
    this.i += 1;
  }

  private entity(): void {
    const m = /^&(?:(amp|lt|gt|quot|apos|nbsp)|#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6}));/.exec(this.s.slice(this.i, this.i + 12));
    if (!m) {
      this.text += '&';
      this.i += 1;
      return;
    }
    const code = m[2] ? Number(m[2]) : m[3] ? parseInt(m[3], 16) : 0;
    const valid = code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
    this.text += m[1] ? NAMED[m[1]]! : valid ? String.fromCodePoint(code) : '\uFFFD';
    this.i += m[0].length;
  }

  private newline(): void {
    const hard = this.text.endsWith('  ');
    let n = this.text.length;
    while (n > 0 && (this.text[n - 1] === ' ' || this.text[n - 1] === '\t')) n -= 1;
    this.text = this.text.slice(0, n);
    this.i += 1;
    if (hard) this.put({ t: 'br' });
    else this.text += '\n';
  }

  private bare(): void {
    const before = this.i === 0 ? ' ' : this.s[this.i - 1]!;
    const m = /[\p{L}\p{N}_]/u.test(before) ? null : /^https?:\/\/[^\s<>"'`\\|{}^[\]*]{1,2000}/i.exec(this.s.slice(this.i, this.i + 2010));
    if (m) {
      let n = m[0].length;
      let excess = count(m[0], ')') - count(m[0], '(');
      for (; n > 0 && (/[.,:;!?_~$]/.test(m[0][n - 1]!) || (m[0][n - 1] === ')' && excess > 0)); n -= 1) {
        if (m[0][n - 1] === ')') excess -= 1;
      }
      const url = m[0].slice(0, n);
      const href = safeUrl(url);
      if (href !== null) {
        this.put({ t: 'link', href, c: [{ t: 'text', s: url }] });
        this.i += url.length;
        return;
      }
    }
    this.plain();
  }

  // Pairs the marks of emphasis, then turns what is left of brackets and runs into text.
  private finish(nodes: Piece[], marks: Mark[]): Span[] {
    const wraps = pair(marks);
    return merge(build(nodes, wraps));
  }
}

function count(s: string, ch: string): number {
  return s.split(ch).length - 1;
}

// What follows "[text]": (url), (<url>), (url "title").
const URL_ANGLE = String.raw`<([^<>\n]{0,2000})>`;
const URL_PLAIN = String.raw`((?:[^\s()\\]|\\.|\([^\s()]{0,200}\)){0,2000})`;
const TITLE = String.raw`(?:[ \t\n]+(?:"[^"]{0,200}"|'[^']{0,200}'))?`;
const TARGET = new RegExp(String.raw`^\([ \t]*(?:${URL_ANGLE}|${URL_PLAIN})${TITLE}[ \t]*\)`);

function target(s: string, i: number): { url: string; end: number } | null {
  const m = s[i] === '(' ? TARGET.exec(s.slice(i, i + 2300)) : null;
  return m ? { url: (m[1] ?? m[2] ?? '').replace(/\\([!-/:-@[-`{-~])/g, '$1'), end: i + m[0].length } : null;
}

interface Wrap {
  t: 'strong' | 'em' | 'del';
  from: number; // after this node
  to: number; // before this node
}

// CommonMark's pairing of runs, with its floor per kind of closer, which keeps it linear.
// (Its rule of three looks at what is left of the runs.)
function pair(marks: Mark[]): { wraps: Wrap[]; left: Map<number, number> } {
  const wraps: Wrap[] = [];
  const stack: Mark[] = [];
  const left = new Map<number, number>();
  const floor = new Map<string, number>();
  for (const m of marks) left.set(m.node, m.n);
  for (const m of marks) {
    if (m.closes) {
      const key = `${m.ch}${m.opens}${m.n % 3}`;
      let k = stack.length - 1;
      while (m.n > 0 && k >= (floor.get(key) ?? 0)) {
        const o = stack[k]!;
        const odd = (o.closes || m.opens) && (o.n + m.n) % 3 === 0 && o.n % 3 !== 0;
        if (o.ch !== m.ch || o.n === 0 || (odd && m.ch !== '~')) {
          k -= 1;
          continue;
        }
        const n = m.ch === '~' ? 2 : Math.min(2, o.n, m.n);
        wraps.push({ t: m.ch === '~' ? 'del' : n === 2 ? 'strong' : 'em', from: o.node, to: m.node });
        o.n -= n;
        m.n -= n;
        left.set(o.node, o.n);
        left.set(m.node, m.n);
        stack.length = o.n > 0 ? k + 1 : k;
        k = stack.length - 1;
      }
      if (m.n > 0) floor.set(key, stack.length);
      for (const [f, n] of floor) if (n > stack.length) floor.set(f, stack.length);
    }
    if (m.opens && m.n > 0) stack.push(m);
  }
  return { wraps, left };
}

function build(nodes: Piece[], found: { wraps: Wrap[]; left: Map<number, number> }): Span[] {
  // Wraps nest properly. At a node several may begin (outer first: they were found last) or end (inner first).
  const begins = new Map<number, Wrap[]>();
  const ends = new Map<number, Wrap[]>();
  for (const w of found.wraps) {
    begins.set(w.from, [w, ...(begins.get(w.from) ?? [])]);
    ends.set(w.to, [...(ends.get(w.to) ?? []), w]);
  }
  const stack: Span[][] = [[]];
  const tooDeep = new Set<Wrap>(); // their text stays, without its emphasis
  const top = (): Span[] => stack[stack.length - 1]!;
  nodes.forEach((node, i) => {
    for (const w of ends.get(i) ?? []) {
      if (tooDeep.has(w)) continue;
      const c = stack.pop()!;
      top().push({ t: w.t, c });
    }
    const n = found.left.get(i);
    if (node.t === 'bracket') top().push({ t: 'text', s: node.s });
    else if (n === undefined) top().push(node);
    else if (n > 0) top().push({ t: 'text', s: (node as { s: string }).s.slice(0, n) });
    for (const w of begins.get(i) ?? []) {
      if (stack.length > MAX_SPANS_DEPTH) tooDeep.add(w);
      else stack.push([]);
    }
  });
  return stack[0]!;
}

function merge(spans: Span[]): Span[] {
  const out: Span[] = [];
  for (const s of spans) {
    const last = out[out.length - 1];
    if ('c' in s) out.push({ ...s, c: merge(s.c) });
    else if (s.t === 'text' && last?.t === 'text') last.s += s.s;
    else out.push(s.t === 'text' ? { ...s } : s);
  }
  return out;
}

// Spans without those of one kind, whose children stay.
function flat(spans: Span[], kind: Span['t']): Span[] {
  return spans.flatMap((s) => (s.t === kind ? ('c' in s ? flat(s.c, kind) : []) : 'c' in s ? [{ ...s, c: flat(s.c, kind) }] : [s]));
}

export function plainText(spans: Span[]): string {
  return spans.map((s) => ('c' in s ? plainText(s.c) : s.t === 'br' ? '\n' : s.s)).join('');
}
