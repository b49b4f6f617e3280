/* mock.mjs: a small server in the place of `inkjet serve`, for tests of the page: the same page with the same headers, and answers that
 * the last message asks for by a word ("slow", "tools", "hostile", ...). Alone: node tests/web/mock.mjs [PORT].
 */
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';

const page = new URL('../../web/dist/index.html', import.meta.url);

export const RICH = `# A small tour

A paragraph with **bold**, *emphasis*, \`code\`, ~~struck~~ and a [link](https://example.com/a?b=c).

1. First
   - nested
   - [x] done
2. Second

| Name | Count |
|:-----|------:|
| ink | 12 |
| water | 340 |

\`\`\`python
def hello(name: str) -> str:
    return f"Hello, {name}!"
\`\`\`

> A quote over
> two lines.

The area is $\\pi r^2$, and

$$
\\int_0^1 x_1 * x_2 \\, dx
$$

---
Done.`;

export const HOSTILE = `<script>window.hacked = 1</script><img src=x onerror="window.hacked = 2"><svg onload="window.hacked = 3">

[a](javascript:window.hacked=4) [b](data:text/html,<script>window.hacked=5</script>) [c](JaVaScRiPt:window.hacked=6) [d](vbscript:x)
![beacon](https://evil.example/pixel.png) <a href="https://evil.example/" onclick="window.hacked=7">x</a>
[ok](https://example.com/" onmouseover="window.hacked=8) <https://example.com/x"onclick=window.hacked=9>

\`\`\`html"><img src=x onerror=window.hacked=10>
</code></pre><script>window.hacked = 11</script>
\`\`\`

| <img src=x onerror=window.hacked=12> | </td><script>window.hacked=13</script> |
|---|---|
| &lt;img src=x onerror=window.hacked=14&gt; | <style>*{display:none}</style><iframe src="https://evil.example"></iframe> |

<meta http-equiv="refresh" content="0;url=https://evil.example"><base href="https://evil.example/">
<form action="https://evil.example"><input name=q></form>`;

const delay = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function textOf(message) {
  if (!message) return '';
  return typeof message.content === 'string' ? message.content : (message.content ?? []).map((p) => p.text ?? '').join('');
}

function pieces(text) {
  return text.match(/[\s\S]{1,7}/gu) ?? [];
}

export function startMock({ port = 0, key = null } = {}) {
  const log = { requests: [], chats: [], gone: 0, policy: [], down: false };
  const json = (res, status, body, headers = {}) => {
    res.writeHead(status, { 'Content-Type': 'application/json', ...headers });
    res.end(JSON.stringify(body));
  };
  const refuse = (res, status, message, param = null, headers = {}) =>
    json(res, status, { error: { message, type: 'invalid_request_error', param, code: null } }, headers);

  async function chat(req, res, body) {
    log.chats.push(body);
    const last = body.messages.at(-1);
    const words = textOf(last);
    const media = Array.isArray(last.content) && last.content.find((p) => p.type !== 'text');
    if (words.includes('refuse')) return refuse(res, 400, 'temperature must be between 0 and 2, found 7', 'temperature');
    if (words.includes('busy')) return refuse(res, 429, 'the queue is full', null, { 'Retry-After': '2' });
    if (media && media.type === 'image_url' && !words.includes('accept'))
      return refuse(res, 400, 'this model takes no images', 'messages[0].content[0]');
    res.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
    let left = false;
    res.on('close', () => {
      left = !res.writableFinished;
      if (left) log.gone += 1;
    });
    const write = (choice, extra = {}) => {
      const choices = choice ? [{ index: 0, finish_reason: null, ...choice }] : [];
      res.write(`data: ${JSON.stringify({ id: 'c1', object: 'chat.completion.chunk', model: 'mock', choices, ...extra })}\n\n`);
    };
    const pause = words.includes('slow') ? 60 : words.includes('steady') ? 40 : 4;
    let n = 0;
    const say = async (name, text) => {
      for (const p of pieces(text)) {
        if (left) return;
        write({ delta: { [name]: p } });
        n += 1;
        await delay(pause);
      }
    };
    write({ delta: { role: 'assistant', content: '' } });
    let finish = 'stop';
    if (words.includes('think'))
      await say(
        'reasoning_content',
        'The user wants me to think. Let me consider **both** sides of it, carefully. '.repeat(words.includes('slow') ? 8 : 1),
      );
    if (words.includes('break')) {
      await say('content', 'This answer will br');
      return res.destroy();
    }
    if (words.includes('fail')) {
      await say('content', 'Almost');
      res.write(`data: ${JSON.stringify({ error: { message: 'the numbers are not finite', type: 'server_error' } })}\n\n`);
      return res.end('data: [DONE]\n\n');
    }
    if (last.role === 'tool') {
      await say('content', `The tool said: ${textOf(last)}`);
    } else if (body.continue_final_message) {
      await say('content', ' and the rest of it.');
    } else if (words.includes('cut')) {
      await say('content', 'The first part');
      finish = 'length';
    } else if (words.includes('tools')) {
      for (const [i, name] of ['weather', 'time'].entries()) {
        write({ delta: { tool_calls: [{ index: i, id: `call_${i}`, type: 'function', function: { name, arguments: '' } }] } });
        for (const p of pieces('{"city": "Oslo", "days": 3}')) write({ delta: { tool_calls: [{ index: i, function: { arguments: p } }] } });
        n += 5;
      }
      finish = 'tool_calls';
    } else if (words.includes('hostile')) {
      await say('content', HOSTILE);
    } else if (words.includes('slow')) {
      await say('content', 'word '.repeat(400));
    } else if (words.includes('steady')) {
      await say('content', 'one word after the other. '.repeat(6));
    } else if (words.includes('long')) {
      await say('content', 'A paragraph of some words that fills the line.\n\n'.repeat(60));
    } else if (words.includes('rich')) {
      await say('content', RICH);
    } else if (body.response_format) {
      await say('content', '{"answer": 42}');
    } else {
      await say('content', `You said: ${words}. This is answer ${log.chats.length}.`);
    }
    write({ delta: {}, finish_reason: finish });
    const prompt = JSON.stringify(body.messages).length >> 2;
    if (body.stream_options?.include_usage) {
      write(null, {
        usage: {
          prompt_tokens: prompt,
          completion_tokens: n,
          total_tokens: prompt + n,
          prompt_tokens_details: { cached_tokens: prompt >> 1 },
          completion_tokens_details: { reasoning_tokens: words.includes('think') ? 11 : 0 },
        },
      });
    }
    res.end('data: [DONE]\n\n');
  }

  const server = createServer((req, res) => {
    const path = req.url.split('?')[0];
    log.requests.push(`${req.method} ${path}`);
    if (log.down) return req.socket.destroy();
    if (path === '/' && req.method === 'GET') {
      const html = readFileSync(page);
      const policy = /http-equiv="Content-Security-Policy" content="([^"]+)"/.exec(html.toString())[1];
      res.writeHead(200, {
        'Content-Type': 'text/html; charset=utf-8',
        'Content-Security-Policy': `${policy}; frame-ancestors 'none'`,
        'Cache-Control': 'no-cache',
      });
      return res.end(html);
    }
    if (path === '/health') return json(res, 200, { status: 'ok' });
    if (key !== null && req.headers.authorization !== `Bearer ${key}`)
      return refuse(res, 401, 'an API key is needed: Authorization: Bearer KEY');
    if (path === '/v1/models')
      return json(res, 200, { object: 'list', data: [{ id: 'inkling-mock', object: 'model', created: 0, owned_by: 'inkjet' }] });
    if (path === '/metrics') {
      res.writeHead(200, { 'Content-Type': 'text/plain; version=0.0.4' });
      return res.end(
        '# TYPE inkjet_resident_memory_bytes gauge\ninkjet_resident_memory_bytes 1234567890\n' +
          'inkjet_prefix_cache_bytes 52428800\ninkjet_jobs_running 1\ninkjet_jobs_waiting 0\n',
      );
    }
    if (path === '/v1/chat/completions' && req.method === 'POST') {
      const parts = [];
      req.on('data', (b) => parts.push(b));
      req.on('end', () => chat(req, res, JSON.parse(Buffer.concat(parts).toString())).catch(() => res.destroy()));
      return undefined;
    }
    return refuse(res, 404, `there is no ${path}`);
  });
  return new Promise((resolve) =>
    server.listen(port, '127.0.0.1', () => {
      resolve({
        url: `http://127.0.0.1:${server.address().port}/`,
        log,
        close: () => {
          server.closeAllConnections();
          server.close();
        },
      });
    }),
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url } = await startMock({ port: Number(process.argv[2] ?? 8080) });
  console.log(`the page is at ${url}`);
}
