/* composer.ts: where messages are written: text that grows, files by button, paste or drop, effort, send and stop. */
import { send, stop } from './actions.ts';
import { ACCEPT, attach, fileItem } from './attach.ts';
import type { Attachment } from './conversation.ts';
import { path } from './conversation.ts';
import { announce, byId, h, iconButton, notice, pickFiles, setIcon } from './dom.ts';
import { effortProblem } from './request.ts';
import { on, run, state, tell } from './state.ts';
import { saveSettings } from './store.ts';

let files: Attachment[] = [];
const drafts = new Map<string, { text: string; files: Attachment[] }>();
let shown = '';

const area = (): HTMLTextAreaElement => byId<HTMLTextAreaElement>('prompt');

function fit(): void {
  const el = area();
  el.style.height = 'auto';
  el.style.height = `${Math.min(el.scrollHeight, Math.round(innerHeight * 0.4))}px`;
}

function drawFiles(): void {
  const list = byId('files');
  list.replaceChildren(
    ...files.map((f, i) =>
      fileItem(f, () => {
        files.splice(i, 1);
        drawFiles();
        area().focus();
      }),
    ),
  );
  list.hidden = files.length === 0;
  drawSend();
}

async function take(found: Iterable<File>): Promise<void> {
  const more = await attach(found);
  files.push(...more);
  drawFiles();
  if (more.length > 0) announce(`${more.map((f) => f.name).join(', ')} attached`);
  area().focus();
}

function drawSend(): void {
  const button = byId<HTMLButtonElement>('send');
  const live = run() !== null;
  const empty = area().value.trim() === '' && files.length === 0;
  const label = live ? 'Stop' : 'Send';
  if (button.getAttribute('aria-label') !== label) setIcon(button, live ? 'stop' : 'up', label);
  button.setAttribute('aria-disabled', String(!live && empty)); // it keeps the focus, which a disabled button would lose
  button.classList.toggle('live', live);
}

function submit(): void {
  if (run()) return announce('An answer is coming. Escape stops it.');
  const text = area().value;
  if (text.trim() === '' && files.length === 0) return area().focus();
  if (!send(text, files)) return;
  files = [];
  area().value = '';
  drafts.delete(state.conv.id);
  fit();
  drawFiles();
  area().focus();
}

/* ---- effort */
const WORDS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'];

function startEffort(): void {
  const select = byId<HTMLSelectElement>('effort');
  const exact = byId<HTMLInputElement>('effort-number');
  select.append(
    h('option', { value: '' }, 'default'),
    ...WORDS.map((w) => h('option', { value: w }, w)),
    h('option', { value: 'number' }, 'number…'),
  );
  const kept = state.settings.effort;
  select.value = kept === '' || WORDS.includes(kept) ? kept : 'number';
  exact.hidden = select.value !== 'number';
  if (!exact.hidden) exact.value = kept;
  const set = (value: string): void => {
    state.settings.effort = value;
    const problem = effortProblem(value);
    exact.setAttribute('aria-invalid', String(problem !== null));
    exact.title = problem ?? '';
    saveSettings(state.settings);
    tell('settings');
  };
  select.addEventListener('change', () => {
    exact.hidden = select.value !== 'number';
    if (exact.hidden) return set(select.value);
    if (exact.value === '') exact.value = '0.5';
    set(exact.value);
    exact.focus();
  });
  exact.addEventListener('input', () => set(exact.value));
  exact.addEventListener('keydown', (e) => {
    if (e.key === 'Enter') {
      e.preventDefault();
      area().focus();
    }
  });
}

/* ---- drop */
function startDrop(): void {
  const main = byId('main');
  let depth = 0;
  const has = (e: DragEvent): boolean => [...(e.dataTransfer?.types ?? [])].includes('Files');
  const mark = (d: number): void => {
    depth = d;
    main.classList.toggle('drop-here', depth > 0);
  };
  main.addEventListener('dragenter', (e) => {
    if (has(e)) {
      e.preventDefault();
      mark(depth + 1);
    }
  });
  main.addEventListener('dragleave', (e) => {
    if (has(e)) mark(Math.max(0, depth - 1));
  });
  main.addEventListener('dragover', (e) => {
    if (has(e)) e.preventDefault();
  });
  main.addEventListener('drop', (e) => {
    if (!has(e)) return;
    e.preventDefault();
    mark(0);
    void take([...(e.dataTransfer?.files ?? [])]);
  });
}

function switchDraft(): void {
  if (shown === state.conv.id) return;
  if (shown !== '') drafts.set(shown, { text: area().value, files });
  shown = state.conv.id;
  const d = drafts.get(shown);
  area().value = d?.text ?? '';
  files = d?.files ?? [];
  fit();
  drawFiles();
}

export function startComposer(): void {
  byId('composer-left').append(
    iconButton(
      'clip',
      'Attach pictures or sounds',
      () => {
        void pickFiles(ACCEPT, true).then((found) => {
          if (found.length > 0) return take(found);
          return undefined;
        });
      },
      { id: 'attach' },
    ),
  );
  byId('composer').addEventListener('submit', (e) => {
    e.preventDefault();
    if (run() && document.activeElement === byId('send')) {
      stop();
      area().focus();
    } else {
      submit();
    }
  });
  area().addEventListener('input', () => {
    fit();
    drawSend();
  });
  area().addEventListener('keydown', (e) => {
    if (e.key === 'Enter' && !e.shiftKey && !e.isComposing) {
      e.preventDefault();
      submit();
    } else if (e.key === 'ArrowUp' && area().value === '' && files.length === 0 && !run()) {
      const last = path(state.conv).findLast((m) => m.role === 'user');
      const button = last && [...document.querySelectorAll<HTMLElement>('.message.user [aria-label="Edit message"]')].at(-1);
      if (button) {
        e.preventDefault();
        button.click();
      }
    }
  });
  area().addEventListener('paste', (e) => {
    const pasted = [...(e.clipboardData?.files ?? [])];
    if (pasted.length === 0) return;
    e.preventDefault();
    void take(pasted).catch((error: Error) => notice(error.message, true));
  });
  document.addEventListener('keydown', (e) => {
    if (e.key !== 'Escape' || e.defaultPrevented || document.querySelector('dialog[open]') || !run()) return;
    e.preventDefault();
    stop();
    area().focus();
  });
  addEventListener('resize', fit);
  startEffort();
  startDrop();
  on(['conv'], switchDraft);
  on(['runs', 'conv'], drawSend);
}
