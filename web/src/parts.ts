/* parts.ts: the modules that need no browser, together, for their tests under node. Not part of the page. */
export * from './conversation.ts';
export * from './markdown.ts';
export * from './metrics.ts';
export * from './request.ts';
export * from './sse.ts';
export * from './turn.ts';
