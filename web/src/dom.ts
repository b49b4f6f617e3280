/* dom.ts: elements without markup. Text goes in as text nodes only; nothing in this program parses HTML. */

type Child = Node | string | null | undefined | false;
type Props = Record<string, string | number | boolean | null | undefined | ((e: never) => void)>;

// h('button', { class: 'x', onclick: f, disabled: true }, 'text', node): functions are listeners, true and false are attributes that are
// there or not.
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const el = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === 'function') el.addEventListener(name.slice(2), value as EventListener);
    else el.setAttribute(name, value === true ? '' : String(value));
  }
  el.append(...children.filter((c): c is Node | string => c !== null && c !== undefined && c !== false));
  return el;
}

const ICONS = {
  plus: 'M12 5v14M5 12h14',
  menu: 'M4 7h16M4 12h16M4 17h16',
  sliders: 'M4 8h9M17 8h3M4 16h3M11 16h9M15 5.5v5M9 13.5v5',
  sun:
    'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8M12 3v1.5M12 19.5V21M3 12h1.5M19.5 12H21' +
    'M5.6 5.6l1.1 1.1M17.3 17.3l1.1 1.1M18.4 5.6l-1.1 1.1M6.7 17.3l-1.1 1.1',
  moon: 'M19.5 14.2A8 8 0 0 1 9.8 4.5a8 8 0 1 0 9.7 9.7Z',
  auto: 'M12 4a8 8 0 1 0 0 16ZM12 4a8 8 0 0 1 0 16',
  copy: 'M9 9h10v10H9zM15 9V5H5v10h4',
  check: 'M5 12.5 10 17.5 19 7',
  pencil: 'M5 19l1-4L16.5 4.5l3 3L9 18l-4 1M14.5 6.5l3 3',
  again: 'M19 12a7 7 0 1 1-2.2-5.1M19 4v4h-4',
  more: 'M6 7l5 5-5 5M13 7l5 5-5 5',
  stop: 'M7 7h10v10H7z',
  up: 'M12 19V6M6 12l6-6 6 6',
  down: 'M12 5v13M6 12l6 6 6-6',
  clip: 'M18.5 11.5 12 18a4 4 0 0 1-5.7-5.7l7-7a2.7 2.7 0 0 1 3.8 3.8l-6.9 6.9a1.3 1.3 0 0 1-1.9-1.9l6.2-6.2',
  trash: 'M5 7h14M10 7V5h4v2M7 7l1 12h8l1-12M10.5 10.5v5M13.5 10.5v5',
  save: 'M12 4v11M7.5 11 12 15.5 16.5 11M5 19.5h14',
  load: 'M12 15.5V4.5M7.5 9 12 4.5 16.5 9M5 19.5h14',
  close: 'M6.5 6.5l11 11M17.5 6.5l-11 11',
  left: 'M14 7l-5 5 5 5',
  right: 'M10 7l5 5-5 5',
  tool: 'M14.5 6.2a4 4 0 0 0-4.9 5.2L4.5 16.5l3 3 5.1-5.1a4 4 0 0 0 5.2-4.9l-2.5 2.5-2.7-.6-.6-2.7Z',
  sound: 'M5 10v4M9 7v10M13 4v16M17 8v8M21 11v2',
} as const;

export type Icon = keyof typeof ICONS;

export function icon(name: Icon): SVGSVGElement {
  const ns = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(ns, 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  const p = document.createElementNS(ns, 'path');
  p.setAttribute('d', ICONS[name]);
  svg.append(p);
  return svg;
}

// A button that shows only a sign; its name is read out and shown as a tip.
export function iconButton(name: Icon, label: string, onclick: (e: MouseEvent) => void, props: Props = {}): HTMLButtonElement {
  return h('button', { type: 'button', class: 'icon-button', 'aria-label': label, title: label, onclick, ...props }, icon(name));
}

export function setIcon(button: HTMLElement, name: Icon, label: string): void {
  button.replaceChildren(icon(name));
  button.setAttribute('aria-label', label);
  button.setAttribute('title', label);
}

export function byId<T extends HTMLElement>(id: string): T {
  const el = document.getElementById(id);
  if (!el) throw new Error(`the page has no #${id}`);
  return el as T;
}

/* ------------------------------------------------------------------------------------------------- what is read out */

// One polite region for what happens, one assertive for what went wrong. While an answer streams nothing is said: only that it began
// and, at its end, how it begins.
export function announce(text: string, urgent = false): void {
  const region = byId(urgent ? 'alert' : 'status');
  region.textContent = '';
  setTimeout(() => {
    region.textContent = text;
  }, 60); // the same words twice are two announcements
}

let noticeTimer = 0;

// A line at the head of the page, for what has no place of its own. It is in nobody's way: clicks go through.
export function notice(text: string, bad = false): void {
  const el = byId('notice');
  const hide = (): void => {
    if (el.matches(':popover-open')) el.hidePopover();
  };
  el.textContent = text;
  el.classList.toggle('bad', bad);
  hide();
  el.showPopover(); // on top of dialogs too
  announce(text, bad);
  clearTimeout(noticeTimer);
  noticeTimer = window.setTimeout(hide, bad ? 9000 : 4000);
}

export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Not on pages that came over plain HTTP from another machine: the old way.
    const active = document.activeElement as HTMLElement | null;
    const area = h('textarea', { class: 'off-screen', 'aria-hidden': 'true', tabindex: -1 });
    area.value = text;
    (active?.closest('dialog') ?? document.body).append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    active?.focus();
    return done;
  }
}

export function copyButton(text: () => string, label: string): HTMLButtonElement {
  const button = iconButton('copy', label, () => {
    void copyText(text()).then((done) => {
      if (!done) return notice('The browser did not allow copying.', true);
      setIcon(button, 'check', 'Copied');
      announce('Copied');
      setTimeout(() => setIcon(button, 'copy', label), 1500);
    });
  });
  return button;
}

export function download(name: string, type: string, text: string): void {
  const href = URL.createObjectURL(new Blob([text], { type }));
  const a = h('a', { href, download: name });
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(href), 10000);
}

export function pickFiles(accept: string, multiple: boolean): Promise<File[]> {
  return new Promise((resolve) => {
    const input = h('input', { type: 'file', accept, multiple, class: 'off-screen', 'aria-hidden': 'true', tabindex: -1 });
    input.addEventListener('change', () => {
      resolve([...(input.files ?? [])]);
      input.remove();
    });
    input.addEventListener('cancel', () => {
      resolve([]);
      input.remove();
    });
    document.body.append(input);
    input.click();
  });
}
