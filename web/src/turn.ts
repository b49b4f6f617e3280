/* turn.ts: the chunks of a streamed answer -> one message and its measurements. Pure: the clock is handed in. */
import type { Message } from './conversation.ts';

interface Delta {
  content?: unknown;
  reasoning_content?: unknown;
  reasoning?: unknown;
  refusal?: unknown;
  tool_calls?: unknown;
}

export class Turn {
  private first = 0;
  private last = 0;
  private answer = 0;
  private events = 0;
  private prompt = 0;
  private cached = 0;
  private tokens = -1;
  private reasoning = 0;

  constructor(
    readonly message: Message,
    private readonly began: number,
  ) {}

  // now: milliseconds. Throws an Error when the stream says that it failed.
  push(json: string, now: number): void {
    let chunk: Record<string, unknown>;
    try {
      chunk = JSON.parse(json) as Record<string, unknown>;
    } catch {
      throw new Error(`the server sent an event that is not JSON: ${json.slice(0, 200)}`);
    }
    if (chunk['error']) throw new Error(errorText(chunk['error']));
    this.usage(chunk['usage']);
    const choice = (chunk['choices'] as { index?: number; delta?: Delta; finish_reason?: unknown }[] | undefined)?.[0];
    if (!choice) return;
    if (choice.delta && this.delta(choice.delta, now)) {
      this.events += 1;
      this.last = now;
      if (this.first === 0) this.first = now;
    }
    const finish = choice.finish_reason;
    if (typeof finish === 'string') {
      this.message.finish = finish === 'stop' || finish === 'length' || finish === 'tool_calls' ? finish : 'other';
    }
  }

  private delta(d: Delta, now: number): boolean {
    const m = this.message;
    let any = false;
    const thought = d.reasoning_content ?? d.reasoning;
    if (typeof thought === 'string' && thought !== '') {
      m.reasoning += thought;
      any = true;
    }
    for (const piece of [d.content, d.refusal]) {
      if (typeof piece !== 'string' || piece === '') continue;
      m.text += piece;
      any = true;
      if (this.answer === 0) this.answer = now;
    }
    if (Array.isArray(d.tool_calls)) {
      for (const c of d.tool_calls as { index?: number; id?: string; function?: { name?: string; arguments?: string } }[]) {
        const i = c.index ?? m.calls.length;
        while (m.calls.length <= i && m.calls.length < 1000) m.calls.push({ id: '', name: '', args: '', done: false });
        const call = m.calls[i];
        if (!call) continue;
        if (c.id) call.id = c.id;
        if (c.function?.name) call.name = c.function.name;
        call.args += c.function?.arguments ?? '';
        any = true;
        if (this.answer === 0) this.answer = now;
      }
    }
    return any;
  }

  private usage(u: unknown): void {
    if (typeof u !== 'object' || u === null) return;
    const v = u as {
      prompt_tokens?: number;
      completion_tokens?: number;
      prompt_tokens_details?: { cached_tokens?: number };
      completion_tokens_details?: { reasoning_tokens?: number };
    };
    this.prompt = v.prompt_tokens ?? this.prompt;
    this.tokens = v.completion_tokens ?? this.tokens;
    this.cached = v.prompt_tokens_details?.cached_tokens ?? this.cached;
    this.reasoning = v.completion_tokens_details?.reasoning_tokens ?? this.reasoning;
  }

  get thinking(): boolean {
    return this.message.reasoning !== '' && this.answer === 0;
  }

  // Also while the answer still comes; then tokens are the events seen so far.
  measure(now: number): void {
    const s = (ms: number): number => Math.max(0, ms) / 1000;
    this.message.stats = {
      first_s: this.first === 0 ? 0 : s(this.first - this.began),
      total_s: s(now - this.began),
      decode_s: s(this.last - this.first),
      think_s: this.message.reasoning === '' ? 0 : s((this.answer || this.last) - this.first),
      prompt: this.prompt,
      cached: this.cached,
      tokens: this.tokens >= 0 ? this.tokens : this.events,
      reasoning: this.reasoning,
      counted: this.tokens >= 0,
    };
  }

  end(now: number): void {
    for (const c of this.message.calls) c.done = c.id !== '' && c.name !== '' && isObject(c.args);
    this.measure(now);
  }
}

function isObject(json: string): boolean {
  try {
    const v: unknown = JSON.parse(json);
    return typeof v === 'object' && v !== null && !Array.isArray(v);
  } catch {
    return false;
  }
}

// Tokens after the first per second between the first and the last; null when there is nothing to divide.
export function perSecond(m: Message): number | null {
  const s = m.stats;
  return s && s.tokens > 1 && s.decode_s >= 0.001 ? (s.tokens - 1) / s.decode_s : null;
}

// {"message", "type", "param", "code"} in the manner of OpenAI, or whatever else was sent.
export function errorText(error: unknown): string {
  if (typeof error === 'string') return error;
  const e = error as { message?: unknown; param?: unknown } | null;
  if (typeof e?.message !== 'string') return JSON.stringify(error).slice(0, 500);
  return typeof e.param === 'string' && e.param !== '' && !e.message.includes(e.param) ? `${e.message} (${e.param})` : e.message;
}
