/* render.ts: the tree of markdown.ts -> elements, again and again while the text grows. Blocks that are as before keep their elements, so
 * that a selection, a scrolled table or a focused button above the growing end stays as it is.
 */
import { copyButton, h } from './dom.ts';
import type { Block, Span } from './markdown.ts';
import { parseBlocks, parseSpans } from './markdown.ts';

const BASE = 2; // headings of a text stand below the heading of its message

export class MarkdownView {
  readonly el = h('div', { class: 'md' });
  private text = '';
  private kept: { key: string; block: Block; el: HTMLElement }[] = [];

  update(text: string): void {
    if (text === this.text) return;
    this.text = text;
    const blocks = parseBlocks(text);
    blocks.forEach((block, i) => {
      const key = JSON.stringify(block);
      const old = this.kept[i];
      if (old?.key === key) return;
      if (old && growCode(old.block, block, old.el)) {
        this.kept[i] = { key, block, el: old.el };
        return;
      }
      const el = blockElement(block);
      if (old) old.el.replaceWith(el);
      else this.el.append(el);
      this.kept[i] = { key, block, el };
    });
    for (const gone of this.kept.splice(blocks.length)) gone.el.remove();
  }
}

function growCode(old: Block, now: Block, el: HTMLElement): boolean {
  if (old.t !== 'code' || now.t !== 'code' || old.lang !== now.lang) return false;
  el.querySelector('code')!.textContent = now.s;
  return true;
}

export function codeElement(text: string, lang: string): HTMLElement {
  const code = h('code', {}, text);
  const name = lang || 'text';
  return h(
    'div',
    { class: 'code' },
    h(
      'div',
      { class: 'code-bar' },
      h('span', {}, name),
      copyButton(() => code.textContent ?? '', 'Copy code'),
    ),
    h('pre', { tabindex: 0, role: 'group', 'aria-label': `Code: ${name}` }, code),
  );
}

function blockElement(b: Block): HTMLElement {
  switch (b.t) {
    case 'p':
      return inline(h('p', { dir: 'auto' }), b.src);
    case 'h':
      return inline(h(`h${Math.min(6, b.level + BASE)}` as 'h3', { dir: 'auto' }), b.src);
    case 'code':
      return codeElement(b.s, b.lang);
    case 'math':
      return h('div', { class: 'math-block', tabindex: 0, role: 'group', 'aria-label': 'Formula' }, b.s);
    case 'quote':
      return h('blockquote', { dir: 'auto' }, ...b.c.map(blockElement));
    case 'hr':
      return h('hr');
    case 'list':
      return listElement(b);
    case 'table':
      return tableElement(b);
  }
}

function listElement(b: Extract<Block, { t: 'list' }>): HTMLElement {
  const items = b.items.map((item) => {
    const li = h('li', { dir: 'auto', class: item.task === null ? null : 'task' });
    if (item.task !== null)
      li.append(h('input', { type: 'checkbox', disabled: true, checked: item.task, 'aria-label': item.task ? 'done' : 'open' }));
    for (const c of item.c) {
      if (c.t === 'p' && b.tight) {
        if (li.lastChild instanceof HTMLElement && li.lastChild.tagName === 'SPAN') li.append(h('br'));
        li.append(inline(h('span'), c.src));
      } else {
        li.append(blockElement(c));
      }
    }
    return li;
  });
  return b.ordered ? h('ol', { start: b.start === 1 ? null : b.start }, ...items) : h('ul', {}, ...items);
}

function tableElement(b: Extract<Block, { t: 'table' }>): HTMLElement {
  const row = (cells: string[], tag: 'th' | 'td'): HTMLElement =>
    h(
      'tr',
      {},
      ...cells.map((c, i) =>
        inline(h(tag, { class: b.align[i] ? `to-${b.align[i]}` : null, scope: tag === 'th' ? 'col' : null, dir: 'auto' }), c),
      ),
    );
  return h(
    'div',
    { class: 'table', tabindex: 0, role: 'group', 'aria-label': 'Table' },
    h('table', {}, h('thead', {}, row(b.head, 'th')), h('tbody', {}, ...b.rows.map((r) => row(r, 'td')))),
  );
}

function inline<T extends HTMLElement>(el: T, src: string): T {
  el.append(...parseSpans(src).map(spanNode));
  return el;
}

function spanNode(s: Span): Node {
  switch (s.t) {
    case 'text':
      return document.createTextNode(s.s);
    case 'code':
      return h('code', {}, s.s);
    case 'math':
      return h('span', { class: 'math' }, s.s);
    case 'br':
      return h('br');
    case 'strong':
    case 'em':
    case 'del':
      return h(s.t, {}, ...s.c.map(spanNode));
    case 'link':
      return h('a', { href: s.href, title: s.href, target: '_blank', rel: 'noopener noreferrer nofollow' }, ...s.c.map(spanNode));
  }
}
