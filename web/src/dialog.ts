/* dialog.ts: modal questions on the platform's own <dialog>, which keeps the focus inside and gives it back. */
import { h, iconButton } from './dom.ts';

let number = 0;

// Shows a dialog until it closes; the value that it was closed with ('' for Escape).
export function modal(title: string, content: Node[], wide = false): { dialog: HTMLDialogElement; closed: Promise<string> } {
  number += 1;
  const id = `dialog-${number}`;
  const dialog = h(
    'dialog',
    { 'aria-labelledby': id, class: wide ? 'wide' : null },
    h(
      'div',
      { class: 'dialog-head' },
      h('h2', { id }, title),
      h('span', { class: 'grow' }),
      iconButton('close', 'Close', () => dialog.close('')),
    ),
    ...content,
  );
  document.body.append(dialog);
  const closed = new Promise<string>((resolve) => {
    dialog.addEventListener('close', () => {
      resolve(dialog.returnValue);
      dialog.remove();
    });
  });
  dialog.addEventListener('pointerdown', (e) => {
    if (e.target === dialog) dialog.close(''); // on the backdrop
  });
  dialog.showModal();
  return { dialog, closed };
}

export async function confirmBox(title: string, words: string, yes: string): Promise<boolean> {
  const { dialog, closed } = modal(title, [h('p', {}, words)]);
  const cancel = h('button', { type: 'button', onclick: () => dialog.close('') }, 'Cancel');
  dialog.append(
    h('div', { class: 'row end' }, cancel, h('button', { type: 'button', class: 'danger', onclick: () => dialog.close('yes') }, yes)),
  );
  cancel.focus();
  return (await closed) === 'yes';
}

export async function keyBox(known: string, stays: boolean): Promise<{ key: string; stays: boolean } | null> {
  const field = h('input', { type: 'password', autocomplete: 'off', spellcheck: 'false', id: 'api-key', value: known, required: true });
  const keep = h('input', { type: 'checkbox', id: 'api-key-stays', checked: stays });
  const form = h(
    'form',
    { method: 'dialog', class: 'stack' },
    h('p', {}, known === '' ? 'This server wants an API key.' : 'The server did not accept the API key.'),
    h('label', { for: 'api-key' }, 'API key'),
    field,
    h('label', { class: 'check' }, keep, ' Keep it in this browser (else only in this tab)'),
    h('div', { class: 'row end' }, h('button', { type: 'submit', value: 'yes', class: 'primary' }, 'Use it')),
  );
  const { closed } = modal('API key', [form]);
  field.focus();
  return (await closed) === 'yes' ? { key: field.value.trim(), stays: keep.checked } : null;
}
