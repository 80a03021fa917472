// OpenAI's own client in JavaScript against the endpoint whose address is the first argument; prints what it got.
// The second argument is the folder of the installed packages.
import { createRequire } from 'node:module';

const [baseURL, packages] = process.argv.slice(2);
const OpenAI = createRequire(`${packages}/`)('openai');
const client = new OpenAI({ baseURL, apiKey: 'any', maxRetries: 0, timeout: 30_000 });
const tools = [{ type: 'function', function: { name: 'find_order', parameters: { type: 'object' } } }];
const said = (content) => [{ role: 'user', content }];
const callsOf = (message) => message.tool_calls.map((call) => [call.function.name, JSON.parse(call.function.arguments)]);

async function whole() {
  const answer = await client.chat.completions.create({ model: 'm', messages: said('hello') });
  return [answer.choices[0].message.content, answer.choices[0].finish_reason, answer.usage.total_tokens > 0];
}

async function streamed() {
  const stream = await client.chat.completions.create({
    model: 'm', messages: said('hello'), stream: true, stream_options: { include_usage: true },
  });
  const parts = [];
  let usage;
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta.content) parts.push(chunk.choices[0].delta.content);
    usage = chunk.usage ?? usage;
  }
  return [parts.join(''), parts.length > 1, usage.total_tokens > 0];
}

async function tool() {
  const first = await client.chat.completions.stream({ model: 'm', messages: said('my order'), tools }).finalMessage();
  const results = first.tool_calls.map(({ id }) => ({ role: 'tool', tool_call_id: id, content: '{}' }));
  const messages = [...said('my order'), first, ...results];
  const answer = await client.chat.completions.create({ model: 'm', messages });
  return [first.content, callsOf(first), answer.choices[0].message.content];
}

async function responses() {
  const stream = client.responses.stream({
    model: 'm', input: 'my order', tools: [{ type: 'function', name: 'find_order', parameters: { type: 'object' } }],
  });
  let text = '';
  stream.on('response.output_text.delta', ({ delta }) => { text += delta; });
  const final = await stream.finalResponse();
  const calls = final.output.filter(({ type }) => type === 'function_call');
  return [text, final.output_text, calls.map((call) => [call.name, JSON.parse(call.arguments)])];
}

async function refused(content) {
  try {
    await client.chat.completions.create({ model: 'm', messages: said(content) });
  } catch (error) {
    return [error.constructor.name, error.status, error.message];
  }
}

const models = [];
for await (const model of client.models.list()) models.push(model.id);
console.log(JSON.stringify({
  models,
  whole: await whole(),
  streamed: await streamed(),
  tool: await tool(),
  responses: await responses(),
  limited: await refused('slower'),
  unmatched: await refused('whatever'),
}));
