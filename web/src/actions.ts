/* actions.ts: everything that changes a conversation: send, stop, regenerate, edit, results of tools, open, delete, import.
 *
 * An answer streams into its message; views are told once per frame, the store once per second, and both at the end.
 */
import { ApiError, chat } from './api.ts';
import type { Attachment, Conversation, Message } from './conversation.ts';
import { add, exportText, importText, lookAt, newConversation, newId, newMessage, path } from './conversation.ts';
import { announce, download, notice } from './dom.ts';
import { parseBlocks, parseSpans, plainText } from './markdown.ts';
import { buildRequest } from './request.ts';
import { run, state, tell } from './state.ts';
import type { Run } from './state.ts';
import * as store from './store.ts';
import { Turn } from './turn.ts';

let askForKey: () => Promise<boolean> = () => Promise.resolve(false);

export function onKeyNeeded(f: () => Promise<boolean>): void {
  askForKey = f;
}

/* ---------------------------------------------------------------------------------------------------- conversations */

export async function refreshList(): Promise<void> {
  state.list = await store.listAll();
  tell('list');
}

export async function keep(conv: Conversation): Promise<void> {
  try {
    await store.save(conv);
  } catch (e) {
    notice(`The browser could not keep this conversation: ${(e as Error).message}. Export it before you leave.`, true);
  }
  await refreshList();
}

export function startNew(): void {
  show(newConversation(state.settings.system));
}

export function show(conv: Conversation): void {
  state.conv = conv;
  store.saveLastOpen(conv.id);
  tell('conv', 'thread', 'list', 'runs');
}

export async function open(id: string): Promise<boolean> {
  const conv = state.runs.get(id)?.conv ?? (await store.load(id));
  if (!conv) return false;
  // An answer that nobody writes any more was cut by closing the page.
  for (const m of conv.messages.values()) {
    if (m.role === 'assistant' && m.finish === '' && state.runs.get(id)?.message.id !== m.id) m.finish = 'stopped';
  }
  show(conv);
  return true;
}

export async function removeConversation(id: string): Promise<void> {
  state.runs.get(id)?.stop.abort();
  state.runs.delete(id);
  await store.remove(id);
  if (state.conv.id === id) startNew();
  await refreshList();
  announce('Conversation deleted');
}

export async function removeEverything(): Promise<void> {
  for (const r of state.runs.values()) r.stop.abort();
  state.runs.clear();
  await store.removeAll();
  startNew();
  await refreshList();
  announce('All conversations deleted');
}

export async function rename(title: string): Promise<void> {
  state.conv.title = title;
  state.conv.named = title !== '';
  tell('conv');
  if (state.conv.messages.size > 0) await keep(state.conv);
}

export async function exportAll(): Promise<void> {
  const all = await store.loadAll();
  if (all.length === 0) return notice('There is nothing to export yet.');
  download(`inkjet-${new Date().toISOString().slice(0, 10)}.json`, 'application/json', exportText(all));
}

export function exportOne(): void {
  const name =
    state.conv.title
      .replace(/[^\p{L}\p{N}]+/gu, '-')
      .replace(/^-|-$/g, '')
      .slice(0, 40)
      .toLowerCase() || 'conversation';
  download(`${name}.json`, 'application/json', exportText([state.conv]));
}

// Nothing that is here already is replaced: a conversation of the same id comes in under a new one.
export async function importFile(file: File): Promise<void> {
  try {
    const found = importText(await file.text());
    const ids = new Set((await store.listAll()).map((e) => e.id));
    for (const conv of found) {
      if (ids.has(conv.id)) conv.id = newId();
      await store.save(conv);
    }
    await refreshList();
    if (found[0]) await open(found[0].id);
    notice(`${found.length} conversation${found.length === 1 ? '' : 's'} imported.`);
  } catch (e) {
    notice(`${file.name} was not imported: ${(e as Error).message}.`, true);
  }
}

/* ----------------------------------------------------------------------------------------------------------- messages */

export function send(text: string, files: Attachment[]): boolean {
  return say(state.conv.leaf, text, files);
}

// The edited message stands beside the old one, which stays reachable.
export function edit(old: Message, text: string, files: Attachment[]): boolean {
  return say(old.parent, text, files);
}

function say(parent: string | null, text: string, files: Attachment[]): boolean {
  if (!ready()) return false;
  const m = newMessage('user', parent);
  m.text = text;
  m.files = files;
  add(state.conv, m);
  ask();
  return true;
}

export function sendResults(from: Message, results: string[]): boolean {
  if (!ready()) return false;
  let parent = from.id;
  from.calls
    .filter((c) => c.done)
    .forEach((c, i) => {
      const m = newMessage('tool', parent);
      m.call = c.id;
      m.name = c.name;
      m.text = results[i] ?? '';
      add(state.conv, m);
      parent = m.id;
    });
  ask();
  return true;
}

export function regenerate(old: Message): boolean {
  if (!ready()) return false;
  state.conv.leaf = old.parent;
  if (old.text === '' && old.reasoning === '' && old.calls.length === 0) state.conv.messages.delete(old.id); // it said nothing
  ask();
  return true;
}

// Whether an answer was cut where the model can take it up again.
export function canContinue(m: Message): boolean {
  return (
    (m.finish === 'length' || m.finish === 'stopped') &&
    m.calls.length === 0 &&
    !m.json &&
    (m.text !== '' || m.reasoning !== '') &&
    state.conv.leaf === m.id
  );
}

export function goOn(m: Message): boolean {
  if (!canContinue(m) || !ready()) return false;
  ask(m);
  return true;
}

export function choose(m: Message): void {
  lookAt(state.conv, m);
  tell('thread');
  void keep(state.conv);
}

export function stop(): void {
  run()?.stop.abort();
}

// Before anything is changed: no answer is coming, and the settings can be sent.
function ready(): boolean {
  if (run()) return false;
  try {
    buildRequest(state.conv, state.settings);
    return true;
  } catch (e) {
    notice((e as Error).message, true);
    return false;
  }
}

function ask(goOn: Message | null = null): void {
  const conv = state.conv;
  const body = buildRequest(conv, state.settings, goOn !== null);
  const reply = goOn ?? newMessage('assistant', conv.leaf);
  if (goOn) {
    goOn.finish = '';
    goOn.error = '';
  } else {
    reply.json = state.settings.format !== 'text';
    add(conv, reply);
  }
  const r: Run = { conv, message: reply, turn: new Turn(reply, performance.now()), stop: new AbortController() };
  state.runs.set(conv.id, r);
  tell('conv', 'thread', 'runs');
  void keep(conv);
  void stream(r, body);
}

async function stream(r: Run, body: unknown): Promise<void> {
  let frame = 0;
  let saved = performance.now();
  const onData = (data: string): void => {
    const now = performance.now();
    r.turn.push(data, now);
    if (now - saved > 1000) {
      saved = now;
      void store.save(r.conv).catch(() => undefined); // said at the end
    }
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      r.turn.measure(performance.now());
      if (state.conv === r.conv && state.runs.get(r.conv.id) === r) tell('stream');
    });
  };
  announce('Waiting for the answer');
  try {
    await chat(body, r.stop.signal, onData);
    if (r.message.finish === '') r.message.finish = 'stop';
  } catch (e) {
    if ((e as Error).name === 'AbortError') {
      r.message.finish = 'stopped';
    } else if (e instanceof ApiError && e.status === 401 && state.runs.get(r.conv.id) === r && (await askForKey())) {
      return stream(r, body);
    } else {
      r.message.finish = 'error';
      r.message.error = (e as Error).message;
    }
  }
  cancelAnimationFrame(frame);
  end(r);
}

function end(r: Run): void {
  r.turn.end(performance.now());
  if (state.runs.get(r.conv.id) !== r) return; // deleted meanwhile
  state.runs.delete(r.conv.id);
  r.conv.updated = Date.now();
  if (state.conv === r.conv) tell('thread', 'runs');
  tell('list');
  announce(spoken(r.message), r.message.finish === 'error');
  void keep(r.conv);
}

function spoken(m: Message): string {
  if (m.finish === 'error') return `No answer: ${m.error}`;
  const blocks = parseBlocks(m.text.slice(0, 600));
  const words = blocks
    .map((b) => ('src' in b ? plainText(parseSpans(b.src)) : ''))
    .join(' ')
    .replace(/\s+/g, ' ')
    .trim()
    .slice(0, 200);
  const how = m.finish === 'stopped' ? 'Answer stopped' : m.finish === 'length' ? 'Answer cut at its longest' : 'Answer complete';
  const calls = m.calls.length > 0 ? ` The model calls ${m.calls.map((c) => c.name).join(', ')}.` : '';
  return `${how}. ${words}${calls}`;
}

export function lastAnswer(): Message | null {
  return path(state.conv).findLast((m) => m.role === 'assistant' && m.stats !== null && m.stats.first_s > 0) ?? null;
}
