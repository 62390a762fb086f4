// Runs the scenario in the AI SDK, and prints its histories:
//     node vercel.mjs FOLDER > recordings.jsonl
// where FOLDER has the packages ai (4, 5 or 6), zod, @opentelemetry/sdk-trace-base@1,
// @opentelemetry/context-async-hooks@1 and @opentelemetry/otlp-transformer@0.57.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import path from 'node:path';
const base = process.argv[2];
const require = createRequire(path.resolve(base, 'package.json'));
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);
const ai = await load('ai');
const test = await load('ai/test');
const { z } = await load('zod');
const { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } = require('@opentelemetry/sdk-trace-base');
const { AsyncHooksContextManager, AsyncLocalStorageContextManager } = require('@opentelemetry/context-async-hooks');
const { context } = require('@opentelemetry/api');
const { JsonTraceSerializer } = require('@opentelemetry/otlp-transformer');
context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
const major = Number(require('ai/package.json').version.split('.')[0]);

const QUESTION = 'Which feeders leave the Harbour substation?';
const ANSWER = 'Feeders F7 and F9.';
const RESULTS = '{"head":{"vars":["f"]},"results":{"bindings":[]}}';
const PROBLEM = 'the index is being rebuilt';
const QUERY = { query: 'SELECT ?f WHERE { ?f grid:leaves grid:Harbour }' };
const SEARCH = { text: 'feeders Harbour', k: 3 };

const schema = { sparql_query: z.object({ query: z.string() }), retrieval_search: z.object({ text: z.string(), k: z.number() }) };
const key = major < 5 ? 'parameters' : 'inputSchema';
const tools = {
  sparql_query: ai.tool({ description: 'q', [key]: schema.sparql_query, execute: async () => RESULTS }),
  retrieval_search: ai.tool({ description: 's', [key]: schema.retrieval_search,
    execute: async () => { if (major < 5) return PROBLEM; throw new Error(PROBLEM); } }),
};
const usage4 = { promptTokens: 20, completionTokens: 5 };
const usage5 = { inputTokens: 20, outputTokens: 5, totalTokens: 25 };
const usage6 = { inputTokens: { total: 20, noCache: 20, cacheRead: 0, cacheWrite: 0 }, outputTokens: { total: 5, text: 5, reasoning: 0 } };
const usage = major < 5 ? usage4 : major < 6 ? usage5 : usage6;
const finish = (reason) => (major < 6 ? reason : { unified: reason, raw: reason });
function model() {
  let turn = 0;
  const calls = [['call_1', 'sparql_query', QUERY], ['call_2', 'retrieval_search', SEARCH]];
  const callParts = calls.map(([id, name, args]) => major < 5
    ? { toolCallType: 'function', toolCallId: id, toolName: name, args: JSON.stringify(args) }
    : { type: 'tool-call', toolCallId: id, toolName: name, input: JSON.stringify(args) });
  const doGenerate = async () => {
    turn += 1;
    if (major < 5) return turn === 1
      ? { rawCall: { rawPrompt: null, rawSettings: {} }, finishReason: 'tool-calls', usage, text: undefined, toolCalls: callParts }
      : { rawCall: { rawPrompt: null, rawSettings: {} }, finishReason: 'stop', usage, text: ANSWER };
    return { finishReason: finish(turn === 1 ? 'tool-calls' : 'stop'), usage, warnings: [],
      content: turn === 1 ? callParts : [{ type: 'text', text: ANSWER }] };
  };
  const doStream = async () => {
    turn += 1;
    let chunks;
    if (major < 5) chunks = turn === 1
      ? [...callParts.map((part) => ({ type: 'tool-call', ...part })), { type: 'finish', finishReason: 'tool-calls', usage }]
      : [{ type: 'text-delta', textDelta: ANSWER }, { type: 'finish', finishReason: 'stop', usage }];
    else chunks = turn === 1
      ? [{ type: 'stream-start', warnings: [] }, ...callParts, { type: 'finish', finishReason: finish('tool-calls'), usage }]
      : [{ type: 'stream-start', warnings: [] }, { type: 'text-start', id: 't' }, { type: 'text-delta', id: 't', delta: ANSWER },
         { type: 'text-end', id: 't' }, { type: 'finish', finishReason: finish('stop'), usage }];
    const stream = new ReadableStream({ start(c) { chunks.forEach((x) => c.enqueue(x)); c.close(); } });
    return { stream, rawCall: { rawPrompt: null, rawSettings: {} } };
  };
  const Mock = test.MockLanguageModelV3 ?? test.MockLanguageModelV2 ?? test.MockLanguageModelV1;
  return new Mock({ doGenerate, doStream });
}
const limit = major < 5 ? { maxSteps: 3 } : { stopWhen: ai.stepCountIs(3) };
const emit = (form, history) => console.log(JSON.stringify({ framework: `ai ${require('ai/package.json').version}`, format: form.startsWith('spans') ? 'otlp' : 'vercel', form, history }));

// Model messages, and spans.
const exporter = new InMemorySpanExporter();
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
const prompt = [{ role: 'user', content: QUESTION }];
const result = await ai.generateText({ model: model(), tools, messages: prompt, ...limit,
  experimental_telemetry: { isEnabled: true, tracer: provider.getTracer('ai') } });
emit(`model messages of version ${major}`, [...prompt, ...result.response.messages]);
const otlp = JSON.parse(new TextDecoder().decode(JsonTraceSerializer.serializeRequest(exporter.getFinishedSpans())));
// Stack traces and resources tell of the machine.
for (const resource of otlp.resourceSpans) {
  resource.resource = { attributes: [] };
  for (const span of resource.scopeSpans.flatMap((scope) => scope.spans)) {
    for (const event of span.events) event.attributes = event.attributes.filter(({ key }) => key !== 'exception.stacktrace');
  }
}
emit(`spans of the AI SDK, version ${major}`, [otlp]);

// UI messages.
if (major < 5) {
  let ui;
  const messages = [{ id: 'm0', role: 'user', content: QUESTION, parts: [{ type: 'text', text: QUESTION }] }];
  const stream = ai.streamText({ model: model(), tools, messages, ...limit,
    onFinish: ({ response }) => { ui = ai.appendResponseMessages({ messages, responseMessages: response.messages }); } });
  for await (const _ of stream.fullStream) { /* read */ }
  emit(`UI messages of version ${major}`, ui);
} else {
  const messages = [{ id: 'm0', role: 'user', parts: [{ type: 'text', text: QUESTION }] }];
  let ui;
  const convert = await ai.convertToModelMessages(messages);
  const stream = ai.streamText({ model: model(), tools, messages: convert, ...limit, onError: () => {} });
  const reader = stream.toUIMessageStream({ originalMessages: messages, onError: (e) => e.message, onFinish: (e) => { ui = e.messages; } });
  for await (const _ of reader) { /* read */ }
  emit(`UI messages of version ${major}`, ui);
}
