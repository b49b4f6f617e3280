/* conversation.ts: what is kept of a conversation: a tree of messages and the leaf that is looked at. Pure.
 *
 * An edited message or an answer made anew is a sibling of the old one, so nothing that was said is lost; what the model sees is the path
 * from the root to the leaf.
 */

export interface Attachment {
  kind: 'image' | 'audio';
  name: string;
  mime: string;
  data: string; // base64
  size: number; // bytes
}

export interface Call {
  id: string;
  name: string;
  args: string;
  done: boolean; // its arguments are whole JSON; others are shown but never sent back
}

export interface Stats {
  first_s: number; // request to first token
  total_s: number; // request to end
  decode_s: number; // first to last token
  think_s: number; // first token to first token of the answer
  prompt: number;
  cached: number;
  tokens: number;
  reasoning: number;
  counted: boolean; // false: the stream ended without usage, tokens are events
}

export type Finish = '' | 'stop' | 'length' | 'tool_calls' | 'stopped' | 'error' | 'other';

export interface Message {
  id: string;
  parent: string | null;
  role: 'user' | 'assistant' | 'tool';
  at: number;
  text: string;
  files: Attachment[];
  reasoning: string;
  calls: Call[];
  call: string; // of a tool's result: the id of its call
  name: string; // of a tool's result: the function
  finish: Finish;
  error: string;
  json: boolean; // the answer was asked for as JSON
  stats: Stats | null;
}

export interface Conversation {
  id: string;
  title: string;
  named: boolean; // by the user
  created: number;
  updated: number;
  system: string;
  leaf: string | null;
  messages: Map<string, Message>;
}

export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(9));
  return Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');
}

export function newConversation(system: string): Conversation {
  const now = Date.now();
  return { id: newId(), title: '', named: false, created: now, updated: now, system, leaf: null, messages: new Map() };
}

export function newMessage(role: Message['role'], parent: string | null): Message {
  return {
    id: newId(),
    parent,
    role,
    at: Date.now(),
    text: '',
    files: [],
    reasoning: '',
    calls: [],
    call: '',
    name: '',
    finish: '',
    error: '',
    json: false,
    stats: null,
  };
}

export function path(conv: Conversation): Message[] {
  const out: Message[] = [];
  for (let id = conv.leaf; id !== null;) {
    const m = conv.messages.get(id);
    if (!m || out.length > conv.messages.size) break;
    out.push(m);
    id = m.parent;
  }
  return out.reverse();
}

export function add(conv: Conversation, m: Message): void {
  conv.messages.set(m.id, m);
  conv.leaf = m.id;
  conv.updated = Date.now();
  if (!conv.named && conv.title === '' && m.role === 'user') conv.title = titleFrom(m);
}

export function siblings(conv: Conversation, m: Message): Message[] {
  return [...conv.messages.values()].filter((o) => o.parent === m.parent && o.role === m.role).sort((a, b) => a.at - b.at);
}

// Looks at this message, and below it at what was said last.
export function lookAt(conv: Conversation, m: Message): void {
  let leaf = m;
  for (let n = 0; n <= conv.messages.size; n += 1) {
    const id = leaf.id;
    const next = [...conv.messages.values()].filter((o) => o.parent === id).sort((a, b) => b.at - a.at)[0];
    if (!next) break;
    leaf = next;
  }
  conv.leaf = leaf.id;
}

export function titleFrom(m: Message): string {
  const line =
    m.text
      .split('\n')
      .map((l) => l.trim())
      .find((l) => l !== '') ??
    m.files[0]?.name ??
    '';
  const chars = Array.from(line);
  return chars.length > 60 ? `${chars.slice(0, 59).join('').trimEnd()}…` : line;
}

/* -------------------------------------------------------------------------------------------------- as JSON, both ways */

export const FORMAT = 'inkjet-conversations';

export function exportText(conversations: Conversation[]): string {
  const list = conversations.map((c) => ({ ...c, messages: [...c.messages.values()] }));
  return `${JSON.stringify({ format: FORMAT, version: 1, conversations: list }, null, 1)}\n`;
}

// Throws an Error that names the place. Everything is built anew, field by field: a file can bring nothing that is not listed here.
export function importText(text: string): Conversation[] {
  let file: unknown;
  try {
    file = JSON.parse(text);
  } catch (e) {
    throw new Error(`this is not JSON (${(e as Error).message})`);
  }
  const top = object(file, 'the file');
  if (top['format'] !== FORMAT) throw new Error(`format is not "${FORMAT}": this file was not exported here`);
  if (top['version'] !== 1) throw new Error(`version ${JSON.stringify(top['version'])} is not known, only 1 is`);
  return array(top['conversations'], 'conversations').map((c, i) => conversationFrom(c, `conversations[${i}]`));
}

function conversationFrom(value: unknown, at: string): Conversation {
  const o = object(value, at);
  const messages = new Map<string, Message>();
  array(o['messages'], `${at}.messages`).forEach((m, i) => {
    const message = messageFrom(m, `${at}.messages[${i}]`);
    if (messages.has(message.id)) throw new Error(`${at}.messages[${i}].id comes twice`);
    messages.set(message.id, message);
  });
  const conv: Conversation = {
    id: idFrom(o['id'], `${at}.id`),
    title: text(o['title'], `${at}.title`),
    named: o['named'] === true,
    created: number(o['created'], `${at}.created`),
    updated: number(o['updated'], `${at}.updated`),
    system: text(o['system'], `${at}.system`),
    leaf: o['leaf'] === null ? null : idFrom(o['leaf'], `${at}.leaf`),
    messages,
  };
  if (conv.leaf !== null && !messages.has(conv.leaf)) throw new Error(`${at}.leaf names no message`);
  checkTree(conv, at);
  return conv;
}

function checkTree(conv: Conversation, at: string): void {
  const good = new Set<string>();
  for (const m of conv.messages.values()) {
    const trail: string[] = [];
    for (let k: Message | undefined = m; k && !good.has(k.id);) {
      if (trail.includes(k.id)) throw new Error(`${at}: messages are their own parents (${k.id})`);
      trail.push(k.id);
      if (k.parent === null) break;
      const up: Message | undefined = conv.messages.get(k.parent);
      if (!up) throw new Error(`${at}: message ${k.id} names a parent that is not there`);
      k = up;
    }
    trail.forEach((id) => good.add(id));
  }
}

const FINISHES: Finish[] = ['', 'stop', 'length', 'tool_calls', 'stopped', 'error', 'other'];

function messageFrom(value: unknown, at: string): Message {
  const o = object(value, at);
  const role = o['role'];
  if (role !== 'user' && role !== 'assistant' && role !== 'tool') throw new Error(`${at}.role is not user, assistant or tool`);
  const finish = FINISHES.find((f) => f === o['finish']);
  if (finish === undefined) throw new Error(`${at}.finish is not known`);
  return {
    id: idFrom(o['id'], `${at}.id`),
    parent: o['parent'] === null ? null : idFrom(o['parent'], `${at}.parent`),
    role,
    at: number(o['at'], `${at}.at`),
    text: text(o['text'], `${at}.text`),
    reasoning: text(o['reasoning'], `${at}.reasoning`),
    files: array(o['files'], `${at}.files`).map((f, i) => fileFrom(f, `${at}.files[${i}]`)),
    calls: array(o['calls'], `${at}.calls`).map((c, i) => callFrom(c, `${at}.calls[${i}]`)),
    call: text(o['call'], `${at}.call`),
    name: text(o['name'], `${at}.name`),
    finish,
    error: text(o['error'], `${at}.error`),
    json: o['json'] === true,
    stats: o['stats'] === null ? null : statsFrom(o['stats'], `${at}.stats`),
  };
}

function fileFrom(value: unknown, at: string): Attachment {
  const o = object(value, at);
  const kind = o['kind'];
  if (kind !== 'image' && kind !== 'audio') throw new Error(`${at}.kind is not image or audio`);
  const mime = text(o['mime'], `${at}.mime`);
  if (!/^(image|audio)\/[a-z0-9.+-]{1,40}$/.test(mime)) throw new Error(`${at}.mime is not the type of an image or a sound`);
  const data = text(o['data'], `${at}.data`);
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(data)) throw new Error(`${at}.data is not base64`);
  return { kind, name: text(o['name'], `${at}.name`), mime, data, size: number(o['size'], `${at}.size`) };
}

function callFrom(value: unknown, at: string): Call {
  const o = object(value, at);
  return {
    id: text(o['id'], `${at}.id`),
    name: text(o['name'], `${at}.name`),
    args: text(o['args'], `${at}.args`),
    done: o['done'] === true,
  };
}

function statsFrom(value: unknown, at: string): Stats {
  const o = object(value, at);
  const n = (key: string): number => number(o[key], `${at}.${key}`);
  return {
    first_s: n('first_s'),
    total_s: n('total_s'),
    decode_s: n('decode_s'),
    think_s: n('think_s'),
    prompt: n('prompt'),
    cached: n('cached'),
    tokens: n('tokens'),
    reasoning: n('reasoning'),
    counted: o['counted'] === true,
  };
}

function object(value: unknown, at: string): Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error(`${at} is not an object`);
  return value as Record<string, unknown>;
}

function array(value: unknown, at: string): unknown[] {
  if (!Array.isArray(value)) throw new Error(`${at} is not a list`);
  return value;
}

function text(value: unknown, at: string): string {
  if (typeof value !== 'string') throw new Error(`${at} is not a text`);
  return value;
}

function number(value: unknown, at: string): number {
  if (typeof value !== 'number' || !Number.isFinite(value)) throw new Error(`${at} is not a number`);
  return value;
}

function idFrom(value: unknown, at: string): string {
  if (typeof value !== 'string' || !/^[0-9a-f]{1,64}$/.test(value)) throw new Error(`${at} is not an id`);
  return value;
}
