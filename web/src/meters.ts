/* meters.ts: speed of the last answer, and what /metrics says of the server: memory, prefix cache, requests. */
import { lastAnswer } from './actions.ts';
import { health, metricsText, models, ApiError } from './api.ts';
import { byId, h } from './dom.ts';
import { bytesText, parseMetrics, secondsText } from './metrics.ts';
import type { Metrics } from './metrics.ts';
import { on, run, state, tell } from './state.ts';
import { perSecond } from './turn.ts';

let metrics: Metrics = new Map();
const rows = new Map<string, { row: HTMLElement; value: HTMLElement; bar: HTMLElement }>();

function set(name: string, value: string | null, share?: number): void {
  let r = rows.get(name);
  if (!r) {
    const text = h('dd');
    const bar = h('i');
    const row = h(
      'div',
      { class: 'meter', hidden: true },
      h('dt', {}, name),
      text,
      h('div', { class: 'bar', 'aria-hidden': 'true', hidden: true }, bar),
    );
    byId('meters').querySelector('dl')!.append(row);
    rows.set(name, (r = { row, value: text, bar }));
  }
  r.row.hidden = value === null;
  if (value !== null && r.value.textContent !== value) r.value.textContent = value;
  r.bar.parentElement!.hidden = share === undefined;
  if (share !== undefined) r.bar.style.width = `${Math.round(100 * Math.min(1, Math.max(0, share)))}%`;
}

function draw(): void {
  const m = run()?.message ?? lastAnswer();
  const rate = m ? perSecond(m) : null;
  const s = m?.stats;
  set('Speed', rate === null ? null : `${s?.counted ? '' : '~'}${rate < 100 ? rate.toFixed(1) : rate.toFixed(0)} tok/s`);
  set('First token', s && s.first_s > 0 ? secondsText(s.first_s) : null);
  set(
    'Prompt cached',
    s?.counted && s.prompt > 0 ? `${s.cached} of ${s.prompt}` : null,
    s?.counted && s.prompt > 0 ? s.cached / s.prompt : undefined,
  );
  const memory = metrics.get('inkjet_resident_memory_bytes') ?? metrics.get('inkjet_heap_bytes');
  set('Memory', memory === undefined ? null : bytesText(memory));
  const cache = metrics.get('inkjet_prefix_cache_bytes');
  set('Prefix cache', cache === undefined ? null : bytesText(cache));
  const running = metrics.get('inkjet_jobs_running');
  const waiting = metrics.get('inkjet_jobs_waiting');
  set('Requests', running === undefined ? null : `${running} running${waiting ? `, ${waiting} waiting` : ''}`);
}

let failed = 0;

async function poll(): Promise<void> {
  if (document.hidden) return;
  try {
    metrics = parseMetrics(await metricsText());
    failed = 0;
  } catch (e) {
    if (e instanceof ApiError && e.status !== 0)
      failed = 0; // it answers, but not this: no meters then
    else failed = (await health()) ? 0 : failed + 1;
    metrics = new Map();
  }
  const online = failed < 2;
  if (online !== state.online) {
    state.online = online;
    tell('server');
    if (online) void loadModels();
  }
  draw();
}

export async function loadModels(): Promise<void> {
  try {
    state.models = await models();
  } catch {
    state.models = []; // the first message will say why
  }
  tell('server');
}

export function startMeters(): void {
  byId('meters').append(h('dl'));
  on(['stream', 'thread', 'runs'], draw);
  const tick = (): void => {
    void poll().finally(() => setTimeout(tick, run() ? 2000 : 5000));
  };
  tick();
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) void poll();
  });
}
