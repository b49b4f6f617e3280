/* store.ts: what stays in the browser. Conversations lie in IndexedDB, in one record each beside a small one for the list; settings lie in
 * localStorage. Where the browser gives neither (a private window), they live as long as the page, and the page says so.
 */
import type { Conversation } from './conversation.ts';
import { DEFAULTS } from './request.ts';
import type { Settings } from './request.ts';

export interface Entry {
  id: string;
  title: string;
  updated: number;
}

let db: IDBDatabase | null = null;
const memory = new Map<string, Conversation>();

function wait<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error('the database failed'));
  });
}

// False: nothing will be kept.
export async function openStore(): Promise<boolean> {
  try {
    const request = indexedDB.open('inkjet', 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore('conversations', { keyPath: 'id' });
      request.result.createObjectStore('list', { keyPath: 'id' });
    };
    db = await wait(request);
    db.onversionchange = () => db?.close();
    return true;
  } catch {
    return false;
  }
}

export async function listAll(): Promise<Entry[]> {
  const all = db ? await wait(db.transaction('list').objectStore('list').getAll() as IDBRequest<Entry[]>) : [...memory.values()];
  return all.map(({ id, title, updated }) => ({ id, title, updated })).sort((a, b) => b.updated - a.updated);
}

export async function load(id: string): Promise<Conversation | null> {
  if (!db) return memory.get(id) ?? null;
  return (await wait(db.transaction('conversations').objectStore('conversations').get(id) as IDBRequest<Conversation | undefined>)) ?? null;
}

export async function loadAll(): Promise<Conversation[]> {
  return db
    ? wait(db.transaction('conversations').objectStore('conversations').getAll() as IDBRequest<Conversation[]>)
    : [...memory.values()];
}

function change(work: (conversations: IDBObjectStore, list: IDBObjectStore) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    if (!db) return resolve();
    const t = db.transaction(['conversations', 'list'], 'readwrite');
    t.oncomplete = () => resolve();
    t.onabort = () => reject(t.error ?? new Error('the browser refused'));
    work(t.objectStore('conversations'), t.objectStore('list'));
  });
}

export async function save(conv: Conversation): Promise<void> {
  if (!db) memory.set(conv.id, conv);
  await change((conversations, list) => {
    conversations.put(conv);
    list.put({ id: conv.id, title: conv.title, updated: conv.updated } satisfies Entry);
  });
  others?.postMessage(conv.id);
}

export async function remove(id: string): Promise<void> {
  memory.delete(id);
  await change((conversations, list) => {
    conversations.delete(id);
    list.delete(id);
  });
  others?.postMessage(id);
}

export async function removeAll(): Promise<void> {
  memory.clear();
  await change((conversations, list) => {
    conversations.clear();
    list.clear();
  });
  others?.postMessage('');
}

/* ---- other tabs of the same page */
const others = 'BroadcastChannel' in window ? new BroadcastChannel('inkjet') : null;

export function onOtherTab(f: (id: string) => void): void {
  others?.addEventListener('message', (e) => f(String(e.data)));
}

/* ---- settings */
export type Theme = 'auto' | 'light' | 'dark';

function read(area: () => Storage, name: string): string | null {
  try {
    return area().getItem(name);
  } catch {
    return null;
  }
}

function write(area: () => Storage, name: string, value: string | null): void {
  try {
    if (value === null) area().removeItem(name);
    else area().setItem(name, value);
  } catch {
    // what cannot be kept holds until the page closes
  }
}

const local = (): Storage => localStorage;
const session = (): Storage => sessionStorage;

export function loadSettings(): Settings {
  const out: Settings = { ...DEFAULTS };
  try {
    const kept = JSON.parse(read(local, 'inkjet.settings') ?? '{}') as Record<string, unknown>;
    for (const name of Object.keys(DEFAULTS) as (keyof Settings)[]) {
      const value = kept[name];
      if (typeof value === 'string') out[name] = value as never;
    }
    if (!['text', 'json_object', 'json_schema'].includes(out.format)) out.format = 'text';
  } catch {
    // unreadable: as if there were none
  }
  return out;
}

export function saveSettings(s: Settings): void {
  write(local, 'inkjet.settings', JSON.stringify(s));
}

export function loadTheme(): Theme {
  const t = read(local, 'inkjet.theme');
  return t === 'light' || t === 'dark' ? t : 'auto';
}

export function saveTheme(t: Theme): void {
  write(local, 'inkjet.theme', t === 'auto' ? null : t);
}

// The key stays in this tab, or in the browser when that is wished.
export function loadKey(): { key: string; stays: boolean } {
  const kept = read(local, 'inkjet.key');
  return { key: kept ?? read(session, 'inkjet.key') ?? '', stays: kept !== null };
}

export function saveKey(key: string, stays: boolean): void {
  write(local, 'inkjet.key', stays && key !== '' ? key : null);
  write(session, 'inkjet.key', !stays && key !== '' ? key : null);
}

export function lastOpen(): string | null {
  return read(session, 'inkjet.open') ?? read(local, 'inkjet.open');
}

export function saveLastOpen(id: string): void {
  write(session, 'inkjet.open', id);
  write(local, 'inkjet.open', id);
}
