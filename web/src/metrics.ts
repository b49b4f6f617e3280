/* metrics.ts: the Prometheus text that /metrics answers -> numbers by name. Pure. Series of one name are summed over their labels. */

export type Metrics = Map<string, number>;

export function parseMetrics(text: string): Metrics {
  const out: Metrics = new Map();
  for (const line of text.split('\n')) {
    if (line === '' || line.startsWith('#')) continue;
    // Labels may hold any text in quotes, also braces and blanks.
    const m = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?:[^"}]|"(?:[^"\\]|\\.)*")*\})?[ \t]+(\S+)/.exec(line);
    if (!m) continue;
    const value = m[2] === '+Inf' ? Infinity : m[2] === '-Inf' ? -Infinity : Number(m[2]);
    if (!Number.isNaN(value)) out.set(m[1]!, (out.get(m[1]!) ?? 0) + value);
  }
  return out;
}

export function bytesText(n: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) {
    n /= 1000;
    i += 1;
  }
  return `${i === 0 ? n.toFixed(0) : n.toPrecision(3)} ${units[i]}`;
}

export function secondsText(s: number): string {
  return s < 0.1 ? `${(s * 1000).toFixed(0)} ms` : s < 10 ? `${s.toFixed(2)} s` : s < 100 ? `${s.toFixed(1)} s` : `${Math.round(s)} s`;
}
