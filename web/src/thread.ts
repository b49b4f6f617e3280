/* thread.ts: the messages of the conversation that is open. One view per message, kept while the message stays on the path, so that a
 * streaming answer changes only its own elements.
 */
import { canContinue, choose, edit, goOn, regenerate, sendResults } from './actions.ts';
import { attach, fileItem } from './attach.ts';
import type { Attachment, Call, Message } from './conversation.ts';
import { path, siblings } from './conversation.ts';
import { byId, copyButton, h, icon, iconButton, notice, setIcon } from './dom.ts';
import { secondsText } from './metrics.ts';
import { codeElement, MarkdownView } from './render.ts';
import { on, run, state } from './state.ts';
import { perSecond } from './turn.ts';

abstract class View {
  readonly el: HTMLLIElement;
  protected readonly article: HTMLElement;
  protected readonly foot = h('div', { class: 'actions' });
  private footKey = '';

  constructor(
    readonly m: Message,
    name: string,
  ) {
    this.article = h('article', {}, h('h2', { class: 'off-screen' }, name));
    this.el = h('li', { class: `message ${m.role}` }, this.article);
  }

  abstract update(live: boolean, last: boolean): void;

  // Buttons are made anew only when they would change; the one with the focus keeps it.
  protected actions(key: string, make: () => (Node | null)[]): void {
    const peers = siblings(state.conv, this.m);
    const place = peers.findIndex((p) => p.id === this.m.id);
    const full = `${key} ${place}/${peers.length}`;
    if (full === this.footKey) return;
    this.footKey = full;
    const focused = this.foot.contains(document.activeElement) ? document.activeElement?.getAttribute('aria-label') : null;
    const nodes: (Node | null)[] = key === 'live' ? [] : [...make(), peers.length > 1 ? versions(peers, place) : null];
    this.foot.replaceChildren(...nodes.filter((n) => n !== null));
    if (focused) {
      const same = [...this.foot.querySelectorAll('button')].find((b) => b.getAttribute('aria-label') === focused && !b.disabled);
      (same ?? byId('prompt')).focus();
    }
  }
}

function versions(peers: Message[], place: number): HTMLElement {
  const step = (by: number, name: 'left' | 'right', label: string): HTMLButtonElement => {
    const to = peers[place + by];
    return iconButton(
      name,
      label,
      () => {
        if (to) move(to, label);
      },
      { disabled: !to || run() !== null },
    );
  };
  return h(
    'span',
    { class: 'versions', role: 'group', 'aria-label': `Version ${place + 1} of ${peers.length}` },
    step(-1, 'left', 'Earlier version'),
    h('span', {}, `${place + 1}/${peers.length}`),
    step(1, 'right', 'Later version'),
  );
}

function move(to: Message, label: string): void {
  choose(to);
  const buttons = [...(views.get(to.id)?.el.querySelectorAll<HTMLButtonElement>('.versions button') ?? [])];
  (buttons.find((b) => b.getAttribute('aria-label') === label && !b.disabled) ?? buttons.find((b) => !b.disabled))?.focus();
}

/* ------------------------------------------------------------------------------------------------------------- user */

class UserView extends View {
  private readonly body = h('div', { class: 'bubble' });

  constructor(m: Message) {
    super(m, 'You');
    if (m.files.length > 0)
      this.body.append(h('ul', { class: 'files', 'aria-label': 'Attached files' }, ...m.files.map((f) => fileItem(f))));
    if (m.text !== '') this.body.append(h('div', { class: 'said', dir: 'auto' }, m.text));
    this.article.append(this.body, this.foot);
  }

  update(): void {
    this.actions(run() ? 'live' : 'idle', () => [
      copyButton(() => this.m.text, 'Copy message'),
      iconButton('pencil', 'Edit message', () => this.edit()),
    ]);
  }

  private edit(): void {
    const files: Attachment[] = [...this.m.files];
    const area = h('textarea', { 'aria-label': 'Edit message', dir: 'auto', rows: Math.min(12, this.m.text.split('\n').length + 1) });
    area.value = this.m.text;
    const list = h('ul', { class: 'files', 'aria-label': 'Attached files' });
    const draw = (): void =>
      list.replaceChildren(
        ...files.map((f, i) =>
          fileItem(f, () => {
            files.splice(i, 1);
            draw();
            area.focus();
          }),
        ),
      );
    draw();
    const close = (): void => {
      form.replaceWith(this.body, this.foot);
      this.foot.querySelector<HTMLElement>('[aria-label="Edit message"]')?.focus();
    };
    const submit = (): void => {
      if (area.value.trim() === '' && files.length === 0) return notice('The message is empty.', true);
      if (edit(this.m, area.value, files)) {
        form.replaceWith(this.body, this.foot);
        byId('prompt').focus();
      }
    };
    const form = h(
      'form',
      {
        class: 'edit',
        'aria-label': 'Edit message',
        onsubmit: (e: Event) => {
          e.preventDefault();
          submit();
        },
      },
      list,
      area,
      h(
        'div',
        { class: 'row' },
        h('span', { class: 'hint' }, 'The old version is kept.'),
        h('span', { class: 'grow' }),
        h('button', { type: 'button', onclick: close }, 'Cancel'),
        h('button', { type: 'submit', class: 'primary' }, 'Send'),
      ),
    );
    form.addEventListener('keydown', (e) => {
      if (e.key === 'Escape') {
        e.preventDefault();
        e.stopPropagation();
        close();
      }
      if (e.key === 'Enter' && !e.shiftKey && !e.isComposing && e.target === area) {
        e.preventDefault();
        submit();
      }
    });
    area.addEventListener('paste', (e) => {
      const pasted = [...(e.clipboardData?.files ?? [])];
      if (pasted.length > 0)
        void attach(pasted).then((more) => {
          files.push(...more);
          draw();
        });
    });
    this.foot.remove();
    this.body.replaceWith(form);
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
  }
}

/* -------------------------------------------------------------------------------------------------------- assistant */

class AssistantView extends View {
  private readonly thoughts = h('details', { class: 'thoughts', hidden: true });
  private readonly summary = h('summary');
  private readonly reasoning = new MarkdownView();
  private readonly text = new MarkdownView();
  private readonly json = h('div', { hidden: true });
  private readonly calls = h('div', { class: 'calls' });
  private readonly wait = h(
    'p',
    { class: 'wait' },
    h('span', { class: 'dots' }, h('i'), h('i'), h('i')),
    h('span', { class: 'off-screen' }, 'waiting'),
  );
  private readonly end = h('div', { class: 'end' });
  private readonly stats = h('p', { class: 'stats' });
  private callViews: CallView[] = [];
  private results: HTMLElement | null = null;

  constructor(m: Message) {
    super(m, 'Answer');
    this.thoughts.append(this.summary, this.reasoning.el);
    this.article.append(
      this.thoughts,
      this.text.el,
      this.json,
      this.calls,
      this.wait,
      this.end,
      h('div', { class: 'under' }, this.foot, this.stats),
    );
  }

  update(live: boolean, last: boolean): void {
    const m = this.m;
    this.article.setAttribute('aria-busy', String(live));
    this.el.classList.toggle('live', live);
    this.thoughts.hidden = m.reasoning === '';
    if (m.reasoning !== '') {
      this.reasoning.update(m.reasoning);
      const thinking = live && m.text === '' && m.calls.length === 0;
      const words = thinking ? 'Thinking…' : m.stats && m.stats.think_s > 0 ? `Thought for ${secondsText(m.stats.think_s)}` : 'Thoughts';
      if (this.summary.textContent !== words) this.summary.textContent = words;
      this.thoughts.classList.toggle('thinking', thinking);
    }
    this.text.el.hidden = m.text === '' || m.json;
    this.json.hidden = m.text === '' || !m.json;
    if (m.json) this.drawJson();
    else this.text.update(m.text);
    this.drawCalls();
    this.wait.hidden = !live || m.text !== '' || m.calls.length > 0 || m.reasoning !== '';
    this.drawEnd(live);
    this.drawResults(!live && last);
    this.actions(live || run() ? 'live' : `idle ${m.finish} ${canContinue(m)}`, () => [
      m.text === '' ? null : copyButton(() => m.text, 'Copy answer'),
      m.finish === 'error'
        ? h('button', { type: 'button', class: 'small', onclick: () => this.again() }, 'Try again')
        : iconButton('again', 'Regenerate answer', () => this.again()),
      canContinue(m)
        ? iconButton('more', 'Continue answer', () => {
            if (goOn(m)) byId('prompt').focus();
          })
        : null,
    ]);
    const words = statsText(m);
    if (this.stats.textContent !== words) this.stats.textContent = words;
  }

  private again(): void {
    if (regenerate(this.m)) byId('prompt').focus();
  }

  private drawJson(): void {
    const code = this.json.querySelector('code');
    if (code) code.textContent = this.m.text;
    else if (this.m.text !== '') this.json.append(codeElement(this.m.text, 'json'));
  }

  private drawCalls(): void {
    this.m.calls.forEach((c, i) => {
      this.callViews[i] ??= new CallView(this.calls);
      this.callViews[i]!.update(c, this.m.finish !== '');
    });
  }

  private drawEnd(live: boolean): void {
    const m = this.m;
    const empty = m.text === '' && m.reasoning === '' && m.calls.length === 0;
    const words = live
      ? ''
      : m.finish === 'error'
        ? m.error
        : m.finish === 'stopped'
          ? 'Stopped.'
          : m.finish === 'length'
            ? 'Cut at the longest answer allowed.'
            : m.finish === 'other'
              ? 'Ended for a reason that this page does not know.'
              : empty
                ? 'The answer is empty.'
                : '';
    this.end.hidden = words === '';
    this.end.classList.toggle('bad', m.finish === 'error');
    if (this.end.textContent !== words) this.end.textContent = words;
  }

  // The model waits for what its tools gave: the user plays the tools.
  private drawResults(wanted: boolean): void {
    const calls = this.m.calls.filter((c) => c.done);
    if (!wanted || calls.length === 0 || this.m.finish === 'error') {
      this.results?.remove();
      this.results = null;
      return;
    }
    if (this.results) return;
    const areas = calls.map((c) =>
      h('textarea', { rows: 2, 'aria-label': `Result of ${c.name}`, placeholder: `What ${c.name} gives back, as text or JSON` }),
    );
    this.results = h(
      'form',
      {
        class: 'results',
        'aria-label': 'Results of tools',
        onsubmit: (e: Event) => {
          e.preventDefault();
          if (
            sendResults(
              this.m,
              areas.map((a) => a.value),
            )
          )
            byId('prompt').focus();
        },
      },
      ...areas,
      h(
        'div',
        { class: 'row' },
        h('span', { class: 'grow' }),
        h('button', { type: 'submit', class: 'primary' }, calls.length > 1 ? 'Send results' : 'Send result'),
      ),
    );
    this.calls.append(this.results);
  }
}

class CallView {
  private readonly name = h('span', { class: 'call-name' });
  private readonly note = h('span', { class: 'call-note' });
  private readonly code = h('code');

  constructor(into: HTMLElement) {
    into.append(
      h(
        'div',
        { class: 'call' },
        h(
          'div',
          { class: 'call-head' },
          icon('tool'),
          h('span', { class: 'off-screen' }, 'Tool call: '),
          this.name,
          this.note,
          h('span', { class: 'grow' }),
          copyButton(() => this.code.textContent ?? '', 'Copy arguments'),
        ),
        h('pre', { tabindex: 0, role: 'group', 'aria-label': 'Arguments' }, this.code),
      ),
    );
  }

  update(c: Call, ended: boolean): void {
    this.name.textContent = c.name || '…';
    this.note.textContent = ended && !c.done ? 'incomplete; it is not sent back to the model' : '';
    const text = c.done ? pretty(c.args) : c.args;
    if (this.code.textContent !== text) this.code.textContent = text;
  }
}

// Indented for the eye, unless reading and writing it would change it (numbers too long, names that come twice).
function pretty(json: string): string {
  try {
    const value: unknown = JSON.parse(json);
    const same = JSON.stringify(value) === json.replace(/("(?:[^"\\]|\\.)*")|\s+/g, '$1');
    return same ? JSON.stringify(value, null, 2) : json;
  } catch {
    return json;
  }
}

function statsText(m: Message): string {
  const s = m.stats;
  if (!s || s.first_s === 0) return '';
  const about = s.counted ? '' : '~';
  const rate = perSecond(m);
  return [
    rate === null ? '' : `${about}${rate < 100 ? rate.toFixed(1) : rate.toFixed(0)} tok/s`,
    `first token ${secondsText(s.first_s)}`,
    s.counted ? `${s.prompt} in${s.cached > 0 ? ` (${s.cached} cached)` : ''}` : '',
    `${about}${s.tokens} out${s.reasoning > 0 ? ` (${s.reasoning} thinking)` : ''}`,
  ]
    .filter((x) => x !== '')
    .join(' · ');
}

/* -------------------------------------------------------------------------------------------------- results of tools */

class ToolView extends View {
  constructor(m: Message) {
    super(m, `Result of ${m.name}`);
    this.article.append(
      h(
        'div',
        { class: 'call result' },
        h(
          'div',
          { class: 'call-head' },
          icon('tool'),
          h('span', { class: 'call-name' }, m.name),
          h('span', { class: 'call-note' }, 'gave back'),
        ),
        h('pre', { tabindex: 0, role: 'group', 'aria-label': 'Result' }, h('code', {}, m.text)),
      ),
    );
  }

  update(): void {
    // a result never changes
  }
}

/* ------------------------------------------------------------------------------------------------------- all of them */

let views = new Map<string, View>();
let shown = '';
let follow = true; // the end stays in view while it grows, until the user scrolls up

function draw(): void {
  const messages = path(state.conv);
  const thread = byId('thread');
  if (shown !== state.conv.id) views = new Map();
  const next = new Map<string, View>();
  for (const m of messages) {
    const known = views.get(m.id);
    next.set(
      m.id,
      known?.m === m ? known : m.role === 'user' ? new UserView(m) : m.role === 'tool' ? new ToolView(m) : new AssistantView(m),
    );
  }
  const wanted = [...next.values()].map((v) => v.el);
  for (const child of [...thread.children]) if (!wanted.includes(child as HTMLLIElement)) child.remove();
  wanted.forEach((el, i) => {
    if (thread.children[i] !== el) thread.insertBefore(el, thread.children[i] ?? null);
  });
  views = next;
  const live = run()?.message;
  messages.forEach((m, i) => next.get(m.id)!.update(m === live, i === messages.length - 1));
  byId('empty').hidden = messages.length > 0;
  if (shown !== state.conv.id || live || follow) toEnd();
  shown = state.conv.id;
}

function drawStream(): void {
  const r = run();
  if (!r) return;
  views.get(r.message.id)?.update(true, true);
  if (follow) toEnd();
}

function toEnd(): void {
  const box = byId('scroll');
  box.scrollTop = box.scrollHeight;
  follow = true;
}

export function startThread(): void {
  const box = byId('scroll');
  const latest = byId('latest');
  setIcon(latest, 'down', 'Go to the latest message');
  latest.addEventListener('click', () => {
    toEnd();
    byId('prompt').focus();
  });
  const look = (): void => {
    follow = box.scrollHeight - box.scrollTop - box.clientHeight < 48;
    latest.hidden = follow;
  };
  box.addEventListener('scroll', look, { passive: true });
  new ResizeObserver(() => {
    if (follow) toEnd();
    else look();
  }).observe(box);
  on(['thread'], draw);
  on(['stream'], drawStream);
}
