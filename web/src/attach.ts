/* attach.ts: files of the user -> attachments, and how they look. The bytes go to the server as they are; it says what it can read. */
import type { Attachment } from './conversation.ts';
import { h, icon, iconButton, notice } from './dom.ts';
import { bytesText } from './metrics.ts';

export const ACCEPT = 'image/png,image/jpeg,image/webp,image/gif,image/bmp,audio/*';
const MAX_FILE = 32 << 20;

export async function attach(files: Iterable<File>): Promise<Attachment[]> {
  const out: Attachment[] = [];
  for (const f of files) {
    const mime = f.type.split(';')[0]!.toLowerCase();
    const kind = /^image\/(?!svg)[a-z0-9.+-]+$/.test(mime) ? 'image' : /^audio\/[a-z0-9.+-]+$/.test(mime) ? 'audio' : null;
    if (!kind) notice(`${f.name} is neither a picture nor a sound (${mime || 'unknown type'}); it was not attached.`, true);
    else if (f.size > MAX_FILE) notice(`${f.name} has ${bytesText(f.size)}; at most ${bytesText(MAX_FILE)} can be attached.`, true);
    else out.push({ kind, name: f.name || kind, mime, data: await base64(f), size: f.size });
  }
  return out;
}

function base64(f: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ''));
    reader.onerror = () => reject(reader.error ?? new Error('unreadable'));
    reader.readAsDataURL(f);
  });
}

// One file as a list item; with onRemove it can be taken away again.
export function fileItem(f: Attachment, onRemove?: () => void): HTMLLIElement {
  const li = h('li', { class: `file ${f.kind}` });
  const src = `data:${f.mime};base64,${f.data}`;
  if (f.kind === 'image') {
    li.append(h('img', { src, alt: f.name, title: `${f.name}, ${bytesText(f.size)}` }));
  } else {
    li.append(icon('sound'), h('span', { class: 'file-name' }, `${f.name} `, h('small', {}, bytesText(f.size))));
    if (!onRemove) li.append(h('audio', { src, controls: true, preload: 'metadata', 'aria-label': f.name }));
  }
  if (onRemove) li.append(iconButton('close', `Remove ${f.name}`, onRemove));
  return li;
}
