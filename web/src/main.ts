/* main.ts: puts the page together: header, views, store, and the first conversation. */
import './style.css';
import { exportOne, onKeyNeeded, open, refreshList, rename, startNew } from './actions.ts';
import { setKey } from './api.ts';
import { startComposer } from './composer.ts';
import { newConversation } from './conversation.ts';
import { keyBox } from './dialog.ts';
import { byId, h, iconButton, notice } from './dom.ts';
import { loadModels, startMeters } from './meters.ts';
import { openSettings } from './settings.ts';
import { startSide } from './side.ts';
import { on, state } from './state.ts';
import * as store from './store.ts';
import { startThread } from './thread.ts';

async function askForKey(): Promise<boolean> {
  const known = store.loadKey();
  const given = await keyBox(known.key, known.stays);
  if (!given) return false;
  store.saveKey(given.key, given.stays);
  setKey(given.key);
  void loadModels();
  return true;
}

function drawTop(): void {
  const title = state.conv.title || 'New conversation';
  byId('title').textContent = title;
  document.title = state.conv.title ? `${state.conv.title} · inkjet` : 'inkjet';
}

// The name of the open conversation is edited in place.
function startRename(): void {
  const title = byId('title');
  const field = h('input', { type: 'text', 'aria-label': 'Name of the conversation', maxlength: 120, class: 'rename', dir: 'auto' });
  field.value = state.conv.title;
  let done = false;
  const close = (save: boolean): void => {
    if (done) return;
    done = true;
    field.replaceWith(title);
    if (save && field.value.trim() !== state.conv.title) void rename(field.value.trim());
  };
  field.addEventListener('keydown', (e) => {
    if (e.key !== 'Enter' && e.key !== 'Escape') return;
    e.preventDefault();
    e.stopPropagation();
    close(e.key === 'Enter');
    byId('rename').focus();
  });
  field.addEventListener('blur', () => close(true));
  title.replaceWith(field);
  field.select();
}

function startTop(): void {
  byId('top-right').append(
    iconButton('pencil', 'Rename conversation', startRename, { id: 'rename' }),
    iconButton('save', 'Export this conversation', exportOne, { id: 'export' }),
    iconButton('sliders', 'Settings', () => openSettings(() => void askForKey()), { id: 'settings' }),
  );
  on(['conv'], drawTop);
  on(['server', 'settings'], () => {
    byId('model').textContent = state.settings.model || state.models[0] || '';
    byId('offline').hidden = state.online;
  });
}

function startSkip(): void {
  document.querySelector('.skip')!.addEventListener('click', (e) => {
    e.preventDefault();
    byId('prompt').focus();
  }); // without #prompt in the address
}

function startEmpty(): void {
  byId('empty').append(
    h('p', { class: 'hello' }, 'What is on your mind?'),
    h('p', { class: 'hint' }, 'Your words go to the machine that serves this page, and nowhere else.'),
  );
}

async function start(): Promise<void> {
  state.settings = store.loadSettings();
  state.runs = new Map();
  state.models = [];
  state.list = [];
  state.online = true;
  state.conv = newConversation(state.settings.system);
  setKey(store.loadKey().key);
  onKeyNeeded(askForKey);
  startTop();
  startSkip();
  startEmpty();
  startSide();
  startThread();
  startComposer();
  state.kept = await store.openStore();
  if (!state.kept) notice('This browser keeps nothing for this page: conversations end with the tab. Export what you need.', true);
  await refreshList();
  const last = store.lastOpen();
  if (!last || !state.list.some((e) => e.id === last) || !(await open(last))) startNew();
  startMeters();
  void loadModels();
  document.addEventListener('visibilitychange', () => {
    // The page may be on its way out.
    if (document.hidden) for (const r of state.runs.values()) void store.save(r.conv).catch(() => undefined);
  });
  store.onOtherTab(() => void refreshList());
  byId('prompt').focus();
}

start().catch((e: Error) => notice(`The page could not start: ${e.message}`, true));
