// The renderer's tree: what models write, what attackers write, and how long it may take.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseBlocks, parseSpans, plainText, safeUrl } from '../../../web/dist/parts.mjs';

const text = (s) => ({ t: 'text', s });
const spans = (src) => parseSpans(src);
const kinds = (src) => parseBlocks(src).map((b) => b.t);

test('emphasis', () => {
  assert.deepEqual(spans('a **b** *c* ~~d~~'), [
    text('a '),
    { t: 'strong', c: [text('b')] },
    text(' '),
    { t: 'em', c: [text('c')] },
    text(' '),
    { t: 'del', c: [text('d')] },
  ]);
  assert.deepEqual(spans('***a** b*'), [{ t: 'em', c: [{ t: 'strong', c: [text('a')] }, text(' b')] }]);
  assert.deepEqual(spans('***both***'), [{ t: 'em', c: [{ t: 'strong', c: [text('both')] }] }]);
  for (const literal of ['snake_case_name', '2 * 3 * 4', '**open', 'a * b', '\\*not\\*', '~one~', '* a *'])
    assert.equal(spans(literal).length, 1, literal);
  assert.deepEqual(spans('\\*not\\*'), [text('*not*')]);
  assert.deepEqual(spans('2 * 3 * 4'), [text('2 * 3 * 4')]);
  assert.deepEqual(spans('**a `*` b**'), [{ t: 'strong', c: [text('a '), { t: 'code', s: '*' }, text(' b')] }]);
});

test('code spans', () => {
  assert.deepEqual(spans('`a` and `` b`c ``'), [{ t: 'code', s: 'a' }, text(' and '), { t: 'code', s: 'b`c' }]);
  assert.deepEqual(spans('`open'), [text('`open')]);
  assert.deepEqual(spans('`<b>**x**`'), [{ t: 'code', s: '<b>**x**' }]);
});

test('maths stays as it is written, prices are no maths', () => {
  assert.deepEqual(spans('$a_1 * b_2 * c$'), [{ t: 'math', s: '$a_1 * b_2 * c$' }]);
  assert.deepEqual(spans('\\(x*y*z\\)'), [{ t: 'math', s: '\\(x*y*z\\)' }]);
  assert.deepEqual(spans('$$x$$'), [{ t: 'math', s: '$$x$$' }]);
  assert.deepEqual(spans('$5 and $10'), [text('$5 and $10')]);
  assert.deepEqual(parseBlocks('$$\nx * y * z\n$$\nafter'), [
    { t: 'math', s: '$$\nx * y * z\n$$' },
    { t: 'p', src: 'after' },
  ]);
  assert.deepEqual(parseBlocks('\\[ x \\]'), [{ t: 'math', s: '\\[ x \\]' }]);
  assert.deepEqual(kinds('$$open\n\nafter'), ['math', 'p']);
});

test('links are http or https, or they are text', () => {
  const link = (src) => spans(src).filter((s) => s.t === 'link');
  assert.deepEqual(spans('[a *b*](https://x.org/p?q=1)'), [
    { t: 'link', href: 'https://x.org/p?q=1', c: [text('a '), { t: 'em', c: [text('b')] }] },
  ]);
  assert.equal(link('see https://x.org/a_(b).')[0].href, 'https://x.org/a_(b)');
  assert.equal(link('(https://x.org/a)')[0].href, 'https://x.org/a');
  assert.equal(link('<https://x.org>')[0].href, 'https://x.org/');
  assert.equal(link('[t](https://x.org "title")')[0].href, 'https://x.org/');
  assert.equal(link('[t](<https://x.org/a>)')[0].href, 'https://x.org/a');
  for (const bad of [
    '[x](javascript:alert(1))',
    '[x](JaVaScRiPt:alert(1))',
    '[x](data:text/html,x)',
    '[x](vbscript:x)',
    '[x](//evil.example)',
    '[x](/local)',
    '[x](file:///etc/passwd)',
    '[x](java\tscript:alert(1))',
    '[x](&#106;avascript:alert(1))',
    '[x]( javascript:alert(1))',
    '[x](https:javascript)',
    '[x](https://)',
    '<javascript:alert(1)>',
    '[x](mailto:a@b.c)',
  ]) {
    assert.equal(link(bad).length, 0, bad);
  }
  for (const bad of [
    'http://a b',
    'https://x.org/"onclick="',
    'https://x.org/<b>',
    'ftp://x.org',
    'https://[',
    'http://\u0000',
    'https://x.org\\@evil',
  ])
    assert.equal(safeUrl(bad), null, bad);
  assert.deepEqual(spans('![a cat](https://x.org/cat.png)'), [{ t: 'link', href: 'https://x.org/cat.png', c: [text('image: a cat')] }]);
  assert.equal(link('[![i](https://a.org/i)](https://b.org/)').length, 1);
  assert.equal(link('[a [b](https://b.org) c](https://c.org)')[0].href, 'https://b.org/');
  assert.equal(spans('xhttps://x.org').length, 1);
});

test('HTML is text, entities are characters', () => {
  assert.deepEqual(spans('<b onclick=x>&lt;i&gt; &amp; &#65;&#x42; &nope; &#0;'), [text('<b onclick=x><i> & AB &nope; \uFFFD')]);
  assert.deepEqual(parseBlocks('<script>alert(1)</script>'), [{ t: 'p', src: '<script>alert(1)</script>' }]);
});

test('breaks', () => {
  assert.deepEqual(spans('a  \nb\\\nc\nd<br>e'), [text('a'), { t: 'br' }, text('b'), { t: 'br' }, text('c\nd'), { t: 'br' }, text('e')]);
});

test('headings are ranked without gaps', () => {
  assert.deepEqual(
    parseBlocks('### a\n# b\n### c ###\n## d').map((b) => [b.level, b.src]),
    [
      [1, 'a'],
      [1, 'b'],
      [2, 'c'],
      [2, 'd'],
    ],
  );
  assert.deepEqual(kinds('#no\n\n# \n\n####### seven'), ['p', 'h', 'p']);
});

test('fences', () => {
  assert.deepEqual(parseBlocks('```python title\na\n\n  b\n```\nafter'), [
    { t: 'code', lang: 'python', s: 'a\n\n  b', open: false },
    { t: 'p', src: 'after' },
  ]);
  assert.deepEqual(parseBlocks('````\n```\n````'), [{ t: 'code', lang: '', s: '```', open: false }]);
  assert.deepEqual(parseBlocks('```js\nlet a'), [{ t: 'code', lang: 'js', s: 'let a', open: true }]);
  assert.deepEqual(parseBlocks('~~~\n```\n~~~'), [{ t: 'code', lang: '', s: '```', open: false }]);
  assert.deepEqual(parseBlocks('text\n```\ncode\n```'), [
    { t: 'p', src: 'text' },
    { t: 'code', lang: '', s: 'code', open: false },
  ]);
});

test('lists', () => {
  const [ol] = parseBlocks('1. First\n   - nested\n   - [x] done\n2. Second\n\n   more\n3. Third');
  assert.equal(ol.items.length, 3);
  assert.equal(ol.tight, false);
  assert.deepEqual(
    ol.items[0].c.map((b) => b.t),
    ['p', 'list'],
  );
  assert.deepEqual(
    ol.items[0].c[1].items.map((i) => i.task),
    [null, true],
  );
  assert.deepEqual(
    ol.items[1].c.map((b) => b.t),
    ['p', 'p'],
  );
  const [two] = parseBlocks('1. a\n  - b\n  - c\n2. d');
  assert.deepEqual([two.items.length, two.items[0].c[1].items.length, two.tight], [2, 2, true]);
  assert.equal(parseBlocks('7) a\n8) b')[0].start, 7);
  assert.deepEqual(kinds('- a\n* b'), ['list', 'list']);
  assert.deepEqual(kinds('in the year\n1984. It was'), ['p']);
  assert.deepEqual(kinds('so:\n1. a\n2. b'), ['p', 'list']);
  const [code] = parseBlocks('- a\n\n  ```js\n  let x;\n\n  let y;\n  ```\n- b');
  assert.deepEqual([code.items.length, code.items[0].c[1].s], [2, 'let x;\n\nlet y;']);
  assert.deepEqual(kinds('- a\n\nafter'), ['list', 'p']);
  assert.deepEqual(kinds('- - -'), ['hr']);
  assert.deepEqual(parseBlocks('-')[0].items, [{ task: null, c: [] }]);
});

test('quotes', () => {
  assert.deepEqual(parseBlocks('> a\nlazy\n> # h\n\nout'), [
    {
      t: 'quote',
      c: [
        { t: 'p', src: 'a\nlazy' },
        { t: 'h', level: 1, src: 'h' },
      ],
    },
    { t: 'p', src: 'out' },
  ]);
});

test('tables', () => {
  const [t] = parseBlocks('| a | b |\n|:--|--:|\n| `x|y` | 2 |\n| \\| | 3 | too | many |\n| one |\nafter');
  assert.deepEqual(t, {
    t: 'table',
    align: ['left', 'right'],
    head: ['a', 'b'],
    rows: [
      ['`x|y`', '2'],
      ['|', '3 | too | many'],
      ['one', ''],
    ],
  });
  assert.deepEqual(kinds('a | b\n--|--\n1 | 2'), ['table']);
  assert.deepEqual(kinds('a | b\n--|--|--'), ['p']);
  assert.deepEqual(kinds('text\n| a |\n|---|'), ['p', 'table']);
});

// Every prefix of a text parses, and loses none of its letters.
test('any prefix', () => {
  const all =
    '# T\n\nA **b** [l](https://x.org) `c` $m$\n\n- a\n  1. b\n\n| h | i |\n|---|---|\n| 1 | 2 |\n\n> q\n\n```js\nlet x = 1;\n```\nend';
  for (let n = 0; n <= all.length; n += 1) {
    const words = JSON.stringify(parseBlocks(all.slice(0, n)).map((b) => ('src' in b ? plainText(parseSpans(b.src)) : b)));
    for (const letter of new Set(
      all
        .slice(0, n)
        .replace(/https?:\/\/x\.org/g, '')
        .match(/[TAbcqe]/g) ?? [],
    ))
      assert.ok(words.includes(letter), `${letter} of ${all.slice(0, n)}`);
  }
});

test('hostile depth and length take no time', () => {
  const n = 10000;
  const texts = [
    '>'.repeat(n),
    '- '.repeat(n),
    '['.repeat(n),
    '[a](https://x.org)'.repeat(n / 10),
    '*a '.repeat(n),
    '**a** _b_ '.repeat(n),
    '*'.repeat(n),
    '_a*'.repeat(n),
    '`'.repeat(n),
    '` `` '.repeat(n),
    '\\('.repeat(n),
    '$'.repeat(n),
    '$a '.repeat(n),
    '|'.repeat(n),
    `\`|${'|a'.repeat(n)}\``,
    '<'.repeat(n),
    '&#'.repeat(n),
    `# a${' '.repeat(n)}b`,
    `\`\`\`${' '.repeat(n)}\``,
    `a${' '.repeat(n)}b\n`.repeat(3),
    '- a\n\n  b\n'.repeat(n / 10),
    '!['.repeat(n),
    ']('.repeat(n),
    '[a]('.repeat(n),
    'https://x.org/' + ')'.repeat(n),
    'http://'.repeat(n),
    '\n'.repeat(n),
    '1. a\n  '.repeat(n / 10),
    '~~a'.repeat(n),
    '***a** b* '.repeat(n / 5),
    '> - '.repeat(n),
    '| a |\n|---|\n'.repeat(n / 10),
    '*a _b '.repeat(n / 2) + 'c_ d* '.repeat(n / 2),
  ];
  const walk = (b) =>
    'src' in b
      ? parseSpans(b.src).length
      : b.t === 'quote'
        ? b.c.forEach(walk)
        : b.t === 'list'
          ? b.items.forEach((i) => i.c.forEach(walk))
          : b.t === 'table'
            ? b.rows.flat().forEach((c) => parseSpans(c))
            : 0;
  for (const t of texts) {
    const began = process.cpuUsage().user;
    parseBlocks(t).forEach(walk);
    const ms = (process.cpuUsage().user - began) / 1000; // of this process: other load does not count
    assert.ok(ms < 2500, `${ms.toFixed(0)} ms for ${t.slice(0, 20)}`);
  }
});

test('random bytes of its own alphabet', () => {
  let seed = 7;
  const random = (n) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  const alphabet = [
    '*',
    '_',
    '`',
    '[',
    ']',
    '(',
    ')',
    '!',
    '<',
    '>',
    '$',
    '\\',
    '|',
    '-',
    '\n',
    ' ',
    'a',
    'https://x.org',
    '#',
    '~',
    '1.',
    '  ',
    '```',
    '&lt;',
    '\u0000',
    '\ud800',
    '😀',
  ];
  for (let k = 0; k < 4000; k += 1) {
    const t = Array.from({ length: 1 + random(40) }, () => alphabet[random(alphabet.length)]).join('');
    const check = (list) =>
      list.forEach((s) => {
        if (s.t === 'link') assert.match(s.href, /^https?:\/\//);
        if (s.c) check(s.c);
      });
    const walk = (b) =>
      'src' in b
        ? check(parseSpans(b.src))
        : b.t === 'quote'
          ? b.c.forEach(walk)
          : b.t === 'list'
            ? b.items.forEach((i) => i.c.forEach(walk))
            : b.t === 'table'
              ? [b.head, ...b.rows].flat().forEach((c) => check(parseSpans(c)))
              : 0;
    parseBlocks(t).forEach(walk);
  }
});
