/* request.ts: a conversation and the settings -> the body of /v1/chat/completions. Pure. A setting that is left empty is not sent, so that
 * the server's own default holds; one that cannot be sent is an Error that names it.
 */
import type { Conversation, Message } from './conversation.ts';
import { path } from './conversation.ts';

export interface Settings {
  model: string;
  effort: string; // '' : the server's default; else a word or a number as text
  temperature: string; // numbers stay as they were typed, so that nothing is rounded or coerced on the way
  top_p: string;
  top_k: string;
  min_p: string;
  repetition_penalty: string;
  presence_penalty: string;
  frequency_penalty: string;
  seed: string;
  max_tokens: string;
  stop: string; // one per line
  format: 'text' | 'json_object' | 'json_schema';
  schema: string;
  tools: string; // JSON
  system: string; // what a new conversation begins with
}

export const DEFAULTS: Settings = {
  model: '',
  effort: '',
  temperature: '',
  top_p: '',
  top_k: '',
  min_p: '',
  repetition_penalty: '',
  presence_penalty: '',
  frequency_penalty: '',
  seed: '',
  max_tokens: '',
  stop: '',
  format: 'text',
  schema: '',
  tools: '',
  system: '',
};

type Field =
  'temperature' | 'top_p' | 'top_k' | 'min_p' | 'repetition_penalty' | 'presence_penalty' | 'frequency_penalty' | 'seed' | 'max_tokens';

export interface NumberField {
  key: Field;
  wire: string;
  label: string;
  hint: string;
  min: number;
  max: number;
  integer: boolean;
}

export const NUMBERS: NumberField[] = [
  {
    key: 'temperature',
    wire: 'temperature',
    label: 'Temperature',
    hint: '0 always takes the likeliest token',
    min: 0,
    max: 2,
    integer: false,
  },
  { key: 'top_p', wire: 'top_p', label: 'Top p', hint: 'keep the likeliest tokens with this share', min: 0, max: 1, integer: false },
  { key: 'top_k', wire: 'top_k', label: 'Top k', hint: 'keep this many tokens; 0 keeps all', min: 0, max: 2147483647, integer: true },
  { key: 'min_p', wire: 'min_p', label: 'Min p', hint: 'drop tokens below this share of the best', min: 0, max: 1, integer: false },
  {
    key: 'repetition_penalty',
    wire: 'repetition_penalty',
    label: 'Repetition penalty',
    hint: '1 is off',
    min: 0.01,
    max: 10,
    integer: false,
  },
  { key: 'presence_penalty', wire: 'presence_penalty', label: 'Presence penalty', hint: '0 is off', min: -2, max: 2, integer: false },
  { key: 'frequency_penalty', wire: 'frequency_penalty', label: 'Frequency penalty', hint: '0 is off', min: -2, max: 2, integer: false },
  {
    key: 'seed',
    wire: 'seed',
    label: 'Seed',
    hint: 'the same seed gives the same answer',
    min: 0,
    max: Number.MAX_SAFE_INTEGER,
    integer: true,
  },
  { key: 'max_tokens', wire: 'max_completion_tokens', label: 'Longest answer', hint: 'in tokens', min: 1, max: 2147483647, integer: true },
];

// What is wrong with a setting, or null.
export function problemOf(field: NumberField, value: string): string | null {
  const s = value.trim();
  if (s === '') return null;
  const n = Number(s);
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(s) || !Number.isFinite(n)) return `${field.label}: "${s}" is not a number`;
  if (field.integer && !Number.isInteger(n)) return `${field.label}: ${s} is not a whole number`;
  if (n < field.min || n > field.max) {
    return `${field.label}: ${s} is not ${field.max > 1e6 ? `at least ${field.min}` : `between ${field.min} and ${field.max}`}`;
  }
  return null;
}

export function effortProblem(value: string): string | null {
  const s = value.trim();
  if (s === '' || /^(none|minimal|low|medium|high|xhigh|max)$/.test(s)) return null;
  const n = Number(s);
  return Number.isFinite(n) && n >= 0 && n <= 0.99 ? null : `Effort: "${s}" is neither one of its words nor a number from 0 to 0.99`;
}

export function toolsProblem(value: string): string | null {
  if (value.trim() === '') return null;
  const v = tryJson(value);
  if (v instanceof Error) return `Tools: not JSON (${v.message})`;
  return Array.isArray(v) ? null : 'Tools: a JSON list [...] of function declarations is expected';
}

export function schemaProblem(format: Settings['format'], value: string): string | null {
  if (format !== 'json_schema') return null;
  if (value.trim() === '') return 'Schema: it is empty';
  const v = tryJson(value);
  if (v instanceof Error) return `Schema: not JSON (${v.message})`;
  return typeof v === 'object' && v !== null && !Array.isArray(v) ? null : 'Schema: a JSON object {...} is expected';
}

function tryJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (e) {
    return e instanceof Error ? e : new Error(String(e));
  }
}

// goOn: the last message is an answer that was cut, and is to be continued.
export function buildRequest(conv: Conversation, s: Settings, goOn = false): Record<string, unknown> {
  const problem =
    NUMBERS.map((f) => problemOf(f, s[f.key])).find((p) => p !== null) ??
    effortProblem(s.effort) ??
    toolsProblem(s.tools) ??
    schemaProblem(s.format, s.schema);
  if (problem) throw new Error(`${problem} (see Settings)`);

  const body: Record<string, unknown> = {
    model: s.model || 'default',
    messages: messagesOf(conv),
    stream: true,
    stream_options: { include_usage: true },
  };
  if (s.effort.trim() !== '') body['reasoning_effort'] = /^[a-z]/.test(s.effort.trim()) ? s.effort.trim() : Number(s.effort);
  for (const f of NUMBERS) if (s[f.key].trim() !== '') body[f.wire] = Number(s[f.key]);
  if (goOn) body['continue_final_message'] = true;
  const stop = s.stop.split('\n').filter((l) => l !== '');
  if (stop.length > 0) body['stop'] = stop;
  if (s.format === 'json_object') body['response_format'] = { type: 'json_object' };
  if (s.format === 'json_schema') {
    body['response_format'] = {
      type: 'json_schema',
      json_schema: { name: 'answer', strict: true, schema: JSON.parse(s.schema) as unknown },
    };
  }
  if (s.tools.trim() !== '') {
    const tools = JSON.parse(s.tools) as unknown[];
    if (tools.length > 0) body['tools'] = tools;
  }
  return body;
}

function messagesOf(conv: Conversation): unknown[] {
  const out: unknown[] = [];
  if (conv.system.trim() !== '') out.push({ role: 'system', content: conv.system });
  for (const m of path(conv)) {
    const wire =
      m.role === 'user' ? userOf(m) : m.role === 'assistant' ? assistantOf(m) : { role: 'tool', tool_call_id: m.call, content: m.text };
    if (wire) out.push(wire);
  }
  return out;
}

function userOf(m: Message): unknown {
  if (m.files.length === 0) return { role: 'user', content: m.text };
  const parts: unknown[] = m.files.map((f) =>
    f.kind === 'image'
      ? { type: 'image_url', image_url: { url: `data:${f.mime};base64,${f.data}` } }
      : { type: 'input_audio', input_audio: { data: f.data, format: audioFormat(f.mime) } },
  );
  if (m.text !== '') parts.push({ type: 'text', text: m.text });
  return { role: 'user', content: parts };
}

export function audioFormat(mime: string): string {
  const kind = mime.replace(/^audio\/(x-)?/, '');
  return kind === 'mpeg' ? 'mp3' : kind === 'wave' || kind === 'vnd.wave' ? 'wav' : kind;
}

// An answer that never came, or of which only an unfinished call came, is not part of the conversation for the model.
function assistantOf(m: Message): unknown {
  const calls = m.calls.filter((c) => c.done);
  if (m.text === '' && m.reasoning === '' && calls.length === 0) return null;
  return {
    role: 'assistant',
    content: m.text === '' ? null : m.text,
    ...(m.reasoning === '' ? {} : { reasoning_content: m.reasoning }),
    ...(calls.length === 0
      ? {}
      : { tool_calls: calls.map((c) => ({ id: c.id, type: 'function', function: { name: c.name, arguments: c.args } })) }),
  };
}
