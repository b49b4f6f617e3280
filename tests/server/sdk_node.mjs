// The npm SDKs of OpenAI and Anthropic, unchanged, against a running server: node sdk_node.mjs URL
// Everything that must come out is forced by schemas and tool choices, so that random weights will do.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import path from 'node:path';

const require = createRequire(path.resolve(process.argv[3] ?? '.', 'package.json'));
const load = async (name) => import(require.resolve(name));
const { default: OpenAI } = await load('openai');
const { zodResponseFormat, zodFunction } = await load('openai/helpers/zod');
const { default: Anthropic } = await load('@anthropic-ai/sdk');
const { z } = await load('zod');

const url = process.argv[2];
const client = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });
const claude = new Anthropic({ baseURL: url, apiKey: 'none', maxRetries: 0 });
const model = 'm';
const user = [{ role: 'user', content: 'Hello' }];
const Person = z.object({ name: z.enum(['Ann', 'Bob']), age: z.literal([1, 22, 33]) });
const Place = z.object({ city: z.enum(['Oslo', 'Rome']) });
const forced = { reasoning_effort: 'none', max_tokens: 400, seed: 2 };
const tools = [zodFunction({ name: 'weather', parameters: Place }), zodFunction({ name: 'news', parameters: Place })];
const inputSchema = { type: 'object', properties: { city: { enum: ['Oslo', 'Rome'] } }, required: ['city'], additionalProperties: false };

const tests = {
  async chatAndStream() {
    const args = { model, messages: user, seed: 1, max_tokens: 10 };
    const whole = await client.chat.completions.create(args);
    let text = '';
    for await (const chunk of await client.chat.completions.create({ ...args,
                                                                    stream: true })) text += chunk.choices[0]?.delta?.content ?? '';
    assert.equal(text, whole.choices[0].message.content ?? '');
  },
  async chatTools() {
    const args = { model, messages: user, tools, tool_choice: 'required', ...forced };
    const whole = await client.chat.completions.create(args);
    assert.equal(whole.choices[0].finish_reason, 'tool_calls');
    for (const call of whole.choices[0].message.tool_calls) Place.parse(JSON.parse(call.function.arguments));
    const final = await client.chat.completions.stream(args).finalChatCompletion();
    const plain = (r) => r.choices[0].message.tool_calls.map((c) => [c.function.name, c.function.arguments]);
    assert.deepEqual(plain(final), plain(whole));
  },
  async chatParse() {
    const args = { model, messages: user, response_format: zodResponseFormat(Person, 'person'), ...forced };
    const parsed = (await client.chat.completions.parse(args)).choices[0].message.parsed;
    Person.parse(parsed);
    const final = await client.chat.completions.stream(args).finalChatCompletion();
    assert.deepEqual(final.choices[0].message.parsed, parsed);
  },
  async chatRefusals() {
    const image = [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }] }];
    await assert.rejects(client.chat.completions.create({ model, messages: image }), OpenAI.BadRequestError);
    await assert.rejects(client.chat.completions.create({ model, messages: user, top_p: 5 }), (e) => e.param === 'top_p' &&
                         e.status === 400);
  },
  async responses() {
    const args = { model, input: 'Hi', max_output_tokens: 8, seed: 1 };
    const whole = await client.responses.create(args);
    const final = await client.responses.stream(args).finalResponse();
    assert.equal(final.output_text, whole.output_text);
  },
  async responsesTools() {
    const tool = { type: 'function', name: 'weather', parameters: inputSchema, strict: true };
    const args = { model, input: 'Hi', tools: [tool], tool_choice: 'required', parallel_tool_calls: false, reasoning: { effort: 'none' },
                  seed: 3 };
    const whole = await client.responses.create(args);
    const call = whole.output.find((i) => i.type === 'function_call');
    Place.parse(JSON.parse(call.arguments));
    const final = await client.responses.stream(args).finalResponse();
    assert.equal(final.output.find((i) => i.type === 'function_call').arguments, call.arguments);
    const input = [{ role: 'user', content: 'Hi' }, ...whole.output, { type: 'function_call_output', call_id: call.call_id,
                                                                      output: 'sunny' }];
    await client.responses.create({ model, input, max_output_tokens: 3 });
  },
  async messages() {
    const args = { model, max_tokens: 8, messages: user, top_k: 1 };
    const whole = await claude.messages.create(args);
    const final = await claude.messages.stream(args).finalMessage();
    assert.deepEqual(final.content, whole.content);
    assert.equal(final.stop_reason, whole.stop_reason);
  },
  async messagesTools() {
    const tool = { name: 'weather', input_schema: inputSchema, strict: true };
    const args = { model, max_tokens: 400, messages: user, tools: [tool], tool_choice: { type: 'any', disable_parallel_tool_use: true } };
    const whole = await claude.messages.create(args);
    const use = whole.content.find((b) => b.type === 'tool_use');
    Place.parse(use.input);
    const streamed = (await claude.messages.stream(args).finalMessage()).content.find((b) => b.type === 'tool_use');
    Place.parse(streamed.input);
    const result = { role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: 'sunny' }] };
    await claude.messages.create({ model, max_tokens: 3, messages: [...user, { role: 'assistant', content: whole.content }, result],
                                  tools: [tool] });
    assert.ok((await claude.messages.countTokens({ model, messages: user })).input_tokens > 0);
  },
  async messagesRefusals() {
    const image = [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0KGgo=' } }];
    await assert.rejects(claude.messages.create({ model, max_tokens: 3, messages: [{ role: 'user', content: image }] }),
                         Anthropic.BadRequestError);
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    await test();
    console.log(`ok   ${name}`);
  } catch (e) {
    failed++;
    console.log(`FAIL ${name}: ${e.stack ?? e}`);
  }
}
console.log(`npm SDKs: ${failed} failed`);
process.exit(failed ? 1 : 0);
