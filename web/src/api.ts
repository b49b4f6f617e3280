/* api.ts: the requests that the page makes, all to the server that it came from. */
import { SseReader } from './sse.ts';
import { errorText } from './turn.ts';

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

let key = '';

export function setKey(value: string): void {
  key = value;
}

function url(path: string): string {
  return new URL(path, document.baseURI).href;
}

async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (key !== '') headers.set('Authorization', `Bearer ${key}`);
  let r: Response;
  try {
    r = await fetch(url(path), { ...init, headers, cache: 'no-store', credentials: 'omit', redirect: 'error' });
  } catch (e) {
    if ((e as Error).name === 'AbortError') throw e;
    throw new ApiError(0, 'The server does not answer. Is it still running?');
  }
  if (!r.ok) throw new ApiError(r.status, await refusal(r));
  return r;
}

async function refusal(r: Response): Promise<string> {
  const text = (await r.text().catch(() => '')).slice(0, 4000);
  let message = text.trim();
  try {
    const body = JSON.parse(text) as { error?: unknown };
    message = errorText(body.error ?? body);
  } catch {
    // not JSON: the text says it
  }
  const wait = r.headers.get('Retry-After');
  if (r.status === 429 && wait) message = `${message.replace(/\.$/, '')}. Try again in ${wait} s.`;
  return message || `HTTP ${r.status} ${r.statusText}`;
}

export async function models(): Promise<string[]> {
  const list = (await (await ask('v1/models')).json()) as { data?: { id?: unknown }[] };
  return (list.data ?? []).map((m) => m.id).filter((id): id is string => typeof id === 'string');
}

export async function health(): Promise<boolean> {
  try {
    await ask('health', { signal: AbortSignal.timeout(5000) });
    return true;
  } catch {
    return false;
  }
}

export async function metricsText(): Promise<string> {
  return (await ask('metrics', { signal: AbortSignal.timeout(5000) })).text();
}

// Calls onData for the data of each event; returns when [DONE] came. A stream that ends without it was cut.
export async function chat(body: unknown, signal: AbortSignal, onData: (data: string) => void): Promise<void> {
  const r = await ask('v1/chat/completions', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Accept: 'text/event-stream' },
    body: JSON.stringify(body),
    signal,
  });
  if (!r.body) throw new ApiError(r.status, 'the answer has no body');
  const reader = r.body.getReader();
  const sse = new SseReader();
  try {
    for (;;) {
      let piece: ReadableStreamReadResult<Uint8Array>;
      try {
        piece = await reader.read();
      } catch (e) {
        if ((e as Error).name === 'AbortError') throw e;
        throw new ApiError(0, 'The connection broke before the answer was complete.');
      }
      if (piece.done) break;
      for (const e of sse.push(piece.value)) {
        if (e.data === '[DONE]') return;
        onData(e.data);
      }
    }
  } finally {
    void reader.cancel().catch(() => undefined);
  }
  throw new ApiError(0, 'The connection ended before the answer was complete.');
}
