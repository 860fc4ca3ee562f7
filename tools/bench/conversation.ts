/**
 * Conversations as coding agents send them with every turn: a long system prompt, tools with schemas, and then text,
 * tool calls with code in their arguments, and tool results with files and logs. The same size gives the same bytes.
 */

import type { Dialect } from './traffic.ts'

interface Call {
  readonly id: string
  readonly name: string
  readonly input: Readonly<Record<string, string>>
}

/** A question, or one step of the agent: what the model wrote, its call, and the result. */
type Turn = { readonly question: string } | { readonly text: string; readonly call: Call; readonly result: string }

interface Conversation {
  readonly system: string
  readonly turns: readonly Turn[]
}

interface Tool {
  readonly name: string
  readonly description: string
  readonly parameters: object
}

const SEED = 20_261_122

/** A generator of numbers from 0 to 1 (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** Lines of source code, logs and prose: quotes, tabs, backslashes and, now and then, other scripts than Latin. */
const LINES = [
  "import { readFile } from 'node:fs/promises'",
  'export async function load(path: string): Promise<Config | undefined> {',
  '\tconst text = await readFile(path, "utf8").catch(() => undefined)',
  '\tif (text === undefined || /^\\s*$/.test(text)) return undefined',
  '\treturn parse(text.replaceAll("\\r\\n", "\\n"), { strict: true })',
  '}',
  '',
  '    def __repr__(self): return f"<{type(self).__name__} id={self.id!r}>"',
  'error TS2345: Argument of type \'string | undefined\' is not assignable to parameter of type "string".',
  '  at Object.<anonymous> (/srv/project/src/server/router.ts:118:23)',
  '[12:04:31.220] INFO  GET /api/items?limit=50&cursor=eyJpZCI6NDJ9 200 in 14ms',
  '-  const total = items.reduce((sum, item) => sum + item.price * item.count, 0)',
  '+  const total = sumOf(items, ({ price, count }) => price * count)',
  '| name | type | default | what it does |',
  'The tests pass now; the remaining failure is in the parser and has nothing to do with this change.',
  '<div class="row" data-id="42"><a href="/items/42">Details &amp; more</a></div>',
  'SELECT id, name, created_at FROM items WHERE owner = $1 AND deleted_at IS NULL ORDER BY id LIMIT 100;',
  '{"level":"warn","msg":"retrying","attempt":2,"wait_ms":400,"url":"https://example.com/v1/things"}',
  '# This is quadratic for long inputs',
  '        return self._cache.setdefault(key, [value for value in values if value not in seen])',
] as const
const FOREIGN = [
  '// prüft, ob der Schlüssel gültig ist – sonst wird die Anfrage abgelehnt',
  '  "title": "設定を保存しました", "subtitle": "次回の起動時に有効になります"',
  'Résumé: la fonction échoue à cause d’un délai dépassé… ✅ corrigé',
] as const

/** The share of lines that are not ASCII: some 2 % of the characters, as in an agent's session. */
const FOREIGN_SHARE = 0.02

function linesOf(random: () => number, bytes: number): string {
  const pick = <T>(from: readonly T[]) => from[Math.floor(random() * from.length)]
  const lines: string[] = []
  for (let length = 0; length < bytes; ) {
    const line = `${random() < FOREIGN_SHARE ? pick(FOREIGN) : pick(LINES)}`
    lines.push(line)
    length += line.length + 1
  }
  return lines.join('\n')
}

const TOOL_NAMES = ['read_file', 'write_file', 'edit_file', 'run_command', 'search', 'list_files', 'fetch_page', 'plan']

function toolsOf(random: () => number): readonly Tool[] {
  return TOOL_NAMES.map((name) => ({
    name,
    description: linesOf(random, 600),
    parameters: {
      type: 'object',
      properties: {
        path: { type: 'string', description: 'The absolute path of the file.' },
        content: { type: 'string', description: 'What to write; the whole file, not a part of it.' },
        timeout_ms: { type: 'integer', minimum: 0, maximum: 600_000, description: linesOf(random, 120) },
        mode: { type: 'string', enum: ['fast', 'careful', 'ask'], description: linesOf(random, 80) },
      },
      required: ['path'],
      additionalProperties: false,
    },
  }))
}

function turnOf(random: () => number, number: number): Turn {
  if (number % 12 === 0) return { question: linesOf(random, 300) }
  const name = TOOL_NAMES[Math.floor(random() * TOOL_NAMES.length)] ?? 'plan'
  const writes = random() < 0.3
  const content = writes ? { content: linesOf(random, 400 + random() * 3000) } : {}
  return {
    text: linesOf(random, 60 + random() * 300),
    call: {
      id: `call_bench${String(number).padStart(6, '0')}`,
      name,
      input: { path: `/srv/project/src/module-${number}/index.ts`, ...content },
    },
    result: linesOf(random, writes ? 60 : 300 + random() * 7000),
  }
}

/** Some bytes of JSON that a turn takes beside its texts. */
const TURN_OVERHEAD = 260

/** A conversation whose request has about `bytes` bytes in each dialect. */
function conversation(bytes: number): Conversation & { readonly tools: readonly Tool[] } {
  const random = randomOf(SEED)
  const system = linesOf(random, 8000)
  const tools = toolsOf(random)
  const turns: Turn[] = []
  let length = JSON.stringify({ system, tools }).length
  while (length < bytes) {
    const turn = turnOf(random, turns.length)
    turns.push(turn)
    length += JSON.stringify(turn).length + TURN_OVERHEAD
  }
  return { system, tools, turns }
}

/** The members of a request beside the model and `stream`, for a conversation of about `bytes` bytes. */
export function conversationOf(dialect: Dialect, bytes: number): object {
  const { system, tools, turns } = conversation(bytes)
  return WRITERS[dialect](system, tools, turns)
}

type Writer = (system: string, tools: readonly Tool[], turns: readonly Turn[]) => object

const WRITERS: Readonly<Record<Dialect, Writer>> = {
  chat: (system, tools, turns) => ({
    messages: [{ role: 'system', content: system }, ...turns.flatMap(chatMessages)],
    tools: tools.map((tool) => ({ type: 'function', function: tool })),
    max_tokens: 4096,
  }),
  messages: (system, tools, turns) => ({
    system: [{ type: 'text', text: system, cache_control: { type: 'ephemeral' } }],
    messages: turns.flatMap(messagesMessages),
    tools: tools.map(({ name, description, parameters }) => ({ name, description, input_schema: parameters })),
    max_tokens: 4096,
  }),
  responses: (system, tools, turns) => ({
    instructions: system,
    input: turns.flatMap(responsesItems),
    tools: tools.map((tool) => ({ type: 'function', strict: false, ...tool })),
    max_output_tokens: 4096,
    store: false,
  }),
  gemini: (system, tools, turns) => ({
    systemInstruction: { parts: [{ text: system }] },
    contents: turns.flatMap(geminiContents),
    tools: [{ functionDeclarations: tools }],
    generationConfig: { maxOutputTokens: 4096 },
  }),
  bedrock: (system, tools, turns) => ({
    system: [{ text: system }],
    messages: turns.flatMap(bedrockMessages),
    toolConfig: {
      tools: tools.map(({ name, description, parameters }) => ({
        toolSpec: { name, description, inputSchema: { json: parameters } },
      })),
    },
    inferenceConfig: { maxTokens: 4096 },
  }),
}

function chatMessages(turn: Turn): readonly object[] {
  if ('question' in turn) return [{ role: 'user', content: turn.question }]
  const { text, call, result } = turn
  const { id, name, input } = call
  return [
    {
      role: 'assistant',
      content: text,
      tool_calls: [{ id, type: 'function', function: { name, arguments: JSON.stringify(input) } }],
    },
    { role: 'tool', tool_call_id: id, content: result },
  ]
}

function messagesMessages(turn: Turn): readonly object[] {
  if ('question' in turn) return [{ role: 'user', content: [{ type: 'text', text: turn.question }] }]
  const { text, call, result } = turn
  return [
    {
      role: 'assistant',
      content: [
        { type: 'text', text },
        { type: 'tool_use', ...call },
      ],
    },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content: result }] },
  ]
}

function responsesItems(turn: Turn): readonly object[] {
  const message = (role: string, type: string, text: string) => ({ type: 'message', role, content: [{ type, text }] })
  if ('question' in turn) return [message('user', 'input_text', turn.question)]
  const { text, call, result } = turn
  const { id, name, input } = call
  return [
    message('assistant', 'output_text', text),
    { type: 'function_call', name, arguments: JSON.stringify(input), call_id: id },
    { type: 'function_call_output', call_id: id, output: result },
  ]
}

function geminiContents(turn: Turn): readonly object[] {
  if ('question' in turn) return [{ role: 'user', parts: [{ text: turn.question }] }]
  const { text, call, result } = turn
  const { name, input } = call
  return [
    { role: 'model', parts: [{ text }, { functionCall: { name, args: input } }] },
    { role: 'user', parts: [{ functionResponse: { name, response: { output: result } } }] },
  ]
}

function bedrockMessages(turn: Turn): readonly object[] {
  if ('question' in turn) return [{ role: 'user', content: [{ text: turn.question }] }]
  const { text, call, result } = turn
  const { id: toolUseId, name, input } = call
  return [
    { role: 'assistant', content: [{ text }, { toolUse: { toolUseId, name, input } }] },
    { role: 'user', content: [{ toolResult: { toolUseId, content: [{ text: result }] } }] },
  ]
}
