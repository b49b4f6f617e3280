/* state.ts: what the page is about at the moment, and who wants to know when it changes. Views read it; actions.ts changes it. */
import type { Conversation, Message } from './conversation.ts';
import type { Settings } from './request.ts';
import type { Entry } from './store.ts';
import type { Turn } from './turn.ts';

export interface Run {
  conv: Conversation;
  message: Message;
  turn: Turn;
  stop: AbortController;
}

export interface State {
  list: Entry[];
  conv: Conversation;
  settings: Settings;
  runs: Map<string, Run>; // by conversation: an answer goes on while another conversation is looked at
  models: string[];
  online: boolean;
  kept: boolean; // conversations outlive the page
}

export const state = {} as State;

type Topic = 'list' | 'conv' | 'thread' | 'stream' | 'runs' | 'server' | 'settings';
const listeners = new Map<Topic, (() => void)[]>();

export function on(topics: Topic[], f: () => void): void {
  for (const t of topics) listeners.set(t, [...(listeners.get(t) ?? []), f]);
}

export function tell(...topics: Topic[]): void {
  for (const f of new Set(topics.flatMap((t) => listeners.get(t) ?? []))) f();
}

export function run(): Run | null {
  return state.runs.get(state.conv.id) ?? null;
}
