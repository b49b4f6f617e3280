/* settings.ts: the settings dialog. Fields are checked as they are typed and kept as text; what is empty is left to the server. */
import { removeEverything } from './actions.ts';
import { confirmBox, modal } from './dialog.ts';
import { h, notice } from './dom.ts';
import { NUMBERS, problemOf, schemaProblem, toolsProblem } from './request.ts';
import type { Settings } from './request.ts';
import { state, tell } from './state.ts';
import { save, saveSettings } from './store.ts';

let number = 0;

function changed(): void {
  saveSettings(state.settings);
  tell('settings');
}

// A label, a control and a line for what is wrong with it.
function field(
  label: string,
  control: HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement,
  hint: string,
  check: () => string | null,
): HTMLElement {
  number += 1;
  const id = `field-${number}`;
  const wrong = h('p', { class: 'wrong', id: `${id}-wrong` });
  control.id = id;
  control.setAttribute('aria-describedby', `${id}-hint ${id}-wrong`);
  const look = (): void => {
    const problem = check();
    wrong.textContent = problem ?? '';
    control.setAttribute('aria-invalid', String(problem !== null));
  };
  control.addEventListener('change', look); // not at every key: half a number is not a mistake
  look();
  return h('div', { class: 'field' }, h('label', { for: id }, label), control, h('p', { class: 'hint', id: `${id}-hint` }, hint), wrong);
}

function textField(
  label: string,
  hint: string,
  name: keyof Settings,
  check: (value: string) => string | null,
  rows = 0,
  placeholder = '',
): HTMLElement {
  const control =
    rows > 0
      ? h('textarea', { rows, placeholder, spellcheck: 'false' })
      : h('input', { type: 'text', inputmode: 'decimal', autocomplete: 'off', placeholder });
  control.value = state.settings[name];
  control.addEventListener('input', () => {
    state.settings[name] = control.value as never;
    changed();
  });
  return field(label, control, hint, () => check(control.value));
}

function systemField(): HTMLElement {
  const area = h('textarea', { rows: 4, dir: 'auto', placeholder: 'None' });
  area.value = state.conv.system;
  area.addEventListener('input', () => {
    state.conv.system = area.value;
    state.settings.system = area.value;
    changed();
  });
  area.addEventListener('change', () => {
    if (state.conv.messages.size > 0) void save(state.conv).catch((e: Error) => notice(e.message, true));
  });
  return field('System prompt', area, 'For this conversation, and for those begun after it.', () => null);
}

function formatFields(): HTMLElement {
  const select = h(
    'select',
    {},
    h('option', { value: 'text' }, 'Free text'),
    h('option', { value: 'json_object' }, 'JSON object'),
    h('option', { value: 'json_schema' }, 'JSON by a schema'),
  );
  select.value = state.settings.format;
  const schema = textField(
    'Schema',
    'A JSON Schema. The server says which keywords it cannot enforce.',
    'schema',
    (v) => schemaProblem(state.settings.format, v),
    6,
    '{ "type": "object", "properties": { … } }',
  );
  const look = (): void => {
    schema.hidden = select.value !== 'json_schema';
  };
  select.addEventListener('change', () => {
    state.settings.format = select.value as Settings['format'];
    changed();
    look();
  });
  look();
  return h(
    'div',
    { class: 'stack' },
    field('Form of answers', select, 'A grammar keeps the answer in this form.', () => null),
    schema,
  );
}

function modelField(): HTMLElement {
  const names = new Set([...state.models, state.settings.model].filter((n) => n !== ''));
  const select = h('select', {}, h('option', { value: '' }, 'What the server has'), ...[...names].map((n) => h('option', { value: n }, n)));
  select.value = state.settings.model;
  select.addEventListener('change', () => {
    state.settings.model = select.value;
    changed();
  });
  return field('Model', select, 'As the server lists them.', () => null);
}

export function openSettings(changeKey: () => void): void {
  const section = (title: string, ...content: Node[]): HTMLElement => h('section', { class: 'stack' }, h('h3', {}, title), ...content);
  const numbers = NUMBERS.map((f) => textField(f.label, f.hint, f.key, (v) => problemOf(f, v), 0, 'default'));
  const { dialog } = modal(
    'Settings',
    [
      h(
        'div',
        { class: 'dialog-body' },
        section('Conversation', systemField()),
        section(
          'Sampling',
          h('div', { class: 'grid' }, ...numbers),
          textField('Stop at', 'The answer ends before any of these; one per line.', 'stop', () => null, 2),
        ),
        section('Structured output', formatFields()),
        section(
          'Tools',
          textField(
            'Functions',
            'A JSON list of functions that the model may call. You give the results.',
            'tools',
            toolsProblem,
            6,
            '[{ "type": "function", "function": { "name": "weather", … } }]',
          ),
        ),
        section('Server', modelField(), h('div', { class: 'row' }, h('button', { type: 'button', onclick: changeKey }, 'API key…'))),
        section(
          'History',
          h('p', { class: 'hint' }, 'Conversations are kept in this browser and nowhere else.'),
          h(
            'div',
            { class: 'row' },
            h(
              'button',
              {
                type: 'button',
                class: 'danger',
                onclick: () => {
                  void confirmBox(
                    'Delete all conversations?',
                    `${state.list.length} will be gone from this browser. Export them first if you may want them back.`,
                    'Delete all',
                  ).then((yes) => {
                    if (yes) {
                      dialog.close();
                      void removeEverything();
                    }
                  });
                },
              },
              'Delete all conversations…',
            ),
          ),
        ),
      ),
    ],
    true,
  );
  dialog.querySelector<HTMLElement>('textarea')?.focus();
}
