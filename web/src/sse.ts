/* sse.ts: bytes -> server-sent events. Pure. The same events come out however the bytes are cut, also inside a character or a line end. */

export interface ServerEvent {
  event: string; // "message" when the stream names none
  data: string;
}

const MAX_EVENT = 16 << 20; // characters of one event; a stream that goes on beyond is not one of ours

export class SseReader {
  private readonly decoder = new TextDecoder('utf-8'); // drops a byte order mark, replaces what is not UTF-8
  private line = '';
  private afterCr = false;
  private data: string[] = [];
  private size = 0;
  private event = '';

  // The events that these bytes complete.
  push(bytes: Uint8Array): ServerEvent[] {
    return this.read(this.decoder.decode(bytes, { stream: true }));
  }

  // The stream is over. An event without its empty line does not count (the standard says so); whether one was cut off is told.
  end(): { cut: boolean } {
    this.read(this.decoder.decode());
    return { cut: this.line !== '' || this.data.length > 0 };
  }

  private read(text: string): ServerEvent[] {
    const out: ServerEvent[] = [];
    let from = 0;
    if (this.afterCr && text !== '') {
      if (text[0] === '\n') from = 1;
      this.afterCr = false;
    }
    for (let i = from; i < text.length; i += 1) {
      const ch = text[i];
      if (ch !== '\n' && ch !== '\r') continue;
      this.take(this.line + text.slice(from, i), out);
      this.line = '';
      if (ch === '\r') {
        if (i + 1 === text.length) this.afterCr = true;
        else if (text[i + 1] === '\n') i += 1;
      }
      from = i + 1;
    }
    this.line += text.slice(from);
    if (this.line.length + this.size > MAX_EVENT) throw new Error('an event of the stream is longer than 16 MB');
    return out;
  }

  private take(line: string, out: ServerEvent[]): void {
    if (line === '') {
      if (this.data.length > 0) out.push({ event: this.event || 'message', data: this.data.join('\n') });
      this.data = [];
      this.size = 0;
      this.event = '';
      return;
    }
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon); // ":" first: a comment, its name is empty
    let value = colon < 0 ? '' : line.slice(colon + 1);
    if (value.startsWith(' ')) value = value.slice(1);
    if (name === 'data') {
      this.data.push(value);
      this.size += value.length;
    } else if (name === 'event') {
      this.event = value;
    }
  }
}
