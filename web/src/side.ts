/* side.ts: the column at the left: new conversation, history, meters; on small screens it slides in over the messages. */
import { exportAll, importFile, open, removeConversation, startNew } from './actions.ts';
import { byId, h, icon, iconButton, notice, pickFiles, setIcon } from './dom.ts';
import { confirmBox } from './dialog.ts';
import { on, state } from './state.ts';
import type { Entry, Theme } from './store.ts';
import { loadTheme, saveTheme } from './store.ts';

const narrow = matchMedia('(max-width: 800px)');

function group(updated: number): string {
  const day = 86400000;
  const today = new Date().setHours(0, 0, 0, 0);
  return updated >= today ? 'Today' : updated >= today - day ? 'Yesterday' : updated >= today - 7 * day ? 'Last seven days' : 'Earlier';
}

function drawList(): void {
  const list = byId('list');
  const focused = list.contains(document.activeElement) ? (document.activeElement as HTMLElement).dataset['key'] : undefined;
  const items: HTMLElement[] = [];
  let last = '';
  for (const e of state.list) {
    const g = group(e.updated);
    if (g !== last) items.push(h('li', { class: 'group' }, g));
    last = g;
    items.push(entry(e));
  }
  if (items.length === 0) items.push(h('li', { class: 'none' }, 'Nothing here yet.'));
  list.replaceChildren(...items);
  if (focused) list.querySelector<HTMLElement>(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function entry(e: Entry): HTMLLIElement {
  const title = e.title || 'Untitled';
  const running = state.runs.has(e.id);
  const here = e.id === state.conv.id;
  return h(
    'li',
    { class: here ? 'entry here' : 'entry' },
    h(
      'button',
      {
        type: 'button',
        class: 'entry-open',
        dir: 'auto',
        'data-key': `open ${e.id}`,
        'aria-current': here ? 'page' : null,
        title,
        onclick: () => {
          void open(e.id).then((found) => {
            if (!found) return notice('This conversation is not there any more.', true);
            closeSide();
            byId('prompt').focus();
          });
        },
      },
      title,
      running && h('span', { class: 'pulse' }, h('span', { class: 'off-screen' }, ', answering')),
    ),
    iconButton(
      'trash',
      `Delete ${title}`,
      () => {
        void confirmBox('Delete this conversation?', `“${title}” will be gone from this browser.`, 'Delete').then(async (yes) => {
          if (!yes) return;
          await removeConversation(e.id);
          byId('new').focus();
        });
      },
      { 'data-key': `delete ${e.id}` },
    ),
  );
}

export function openSide(): void {
  document.body.classList.add('side-open');
  byId('shade').hidden = false;
  sync();
  byId('new').focus();
}

export function closeSide(): void {
  if (!document.body.classList.contains('side-open')) return;
  document.body.classList.remove('side-open');
  byId('shade').hidden = true;
  sync();
}

// On a small screen the closed column is out of reach for keys and readers, and so are the messages while it is open.
function sync(): void {
  const isOpen = document.body.classList.contains('side-open');
  byId('side').inert = narrow.matches && !isOpen;
  byId('main').inert = narrow.matches && isOpen;
  byId('menu').setAttribute('aria-expanded', String(isOpen));
}

/* ---- theme */
const THEMES: Record<Theme, { next: Theme; sign: 'auto' | 'sun' | 'moon'; words: string }> = {
  auto: { next: 'light', sign: 'auto', words: 'Theme: as the system' },
  light: { next: 'dark', sign: 'sun', words: 'Theme: light' },
  dark: { next: 'auto', sign: 'moon', words: 'Theme: dark' },
};

function applyTheme(t: Theme, button: HTMLElement): void {
  if (t === 'auto') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = t;
  setIcon(button, THEMES[t].sign, THEMES[t].words);
}

export function startSide(): void {
  const make = byId('new');
  make.append(icon('plus'), 'New conversation');
  make.addEventListener('click', () => {
    startNew();
    closeSide();
    byId('prompt').focus();
  });

  let theme = loadTheme();
  const themeButton: HTMLButtonElement = iconButton(
    'auto',
    '',
    () => {
      theme = THEMES[theme].next;
      saveTheme(theme);
      applyTheme(theme, themeButton);
    },
    { id: 'theme' },
  );
  applyTheme(theme, themeButton);
  byId('side-tools').append(
    iconButton(
      'load',
      'Import conversations',
      () => {
        void pickFiles('application/json,.json', false).then(async ([f]) => {
          if (f) await importFile(f);
        });
      },
      { id: 'import' },
    ),
    iconButton('save', 'Export all conversations', () => void exportAll(), { id: 'export-all' }),
    themeButton,
  );

  byId('top-left').append(iconButton('menu', 'Conversations', openSide, { id: 'menu', 'aria-controls': 'side', 'aria-expanded': 'false' }));
  byId('shade').addEventListener('click', () => {
    closeSide();
    byId('menu').focus();
  });
  document.addEventListener('keydown', (e) => {
    if (e.key !== 'Escape' || !document.body.classList.contains('side-open') || document.querySelector('dialog[open]')) return;
    e.preventDefault(); // it does not stop an answer as well
    closeSide();
    byId('menu').focus();
  });
  narrow.addEventListener('change', () => {
    closeSide();
    sync();
  });
  sync();
  on(['list', 'runs'], drawList);
}
