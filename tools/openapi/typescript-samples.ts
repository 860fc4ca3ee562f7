/** Examples in TypeScript, with the official SDKs. */

import { isOfAnthropic, type Program, type SampleRequest, sdkBase } from './sample-request.ts'

export function typescriptPrograms(request: SampleRequest): Program {
  const [name, module] = isOfAnthropic(request) ? ['Anthropic', '@anthropic-ai/sdk'] : ['OpenAI', 'openai']
  const head = [
    ...(request.kind === 'edits' ? ["import { createReadStream } from 'node:fs'"] : []),
    `import ${name} from '${module}'`,
    '',
    `const client = new ${name}({ baseURL: '${sdkBase(request)}', apiKey: process.env.WEIR_KEY })`,
  ]
  const stream = streamLines(request)
  return {
    whole: [...head, ...wholeLines(request)].join('\n'),
    stream: stream && [...head, ...stream].join('\n'),
  }
}

/** `before({`, a member on each line, `})`. */
function call(before: string, body: object): readonly string[] {
  return [`${before}({`, ...Object.entries(body).map(([name, value]) => `  ${name}: ${literal(value)},`), '})']
}

/** Source text within a body. */
class Source {
  constructor(readonly text: string) {}
}

function literal(value: unknown): string {
  if (value instanceof Source) return value.text
  if (typeof value === 'string') return `'${value}'`
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).map(([name, each]) => `${name}: ${literal(each)}`)
  return `{ ${members.join(', ')} }`
}

function wholeLines(request: SampleRequest): readonly string[] {
  switch (request.kind) {
    case 'models':
    case 'anthropic models':
      return ['for await (const model of client.models.list()) console.log(model.id)']
    case 'chat':
      return [
        ...call('const answer = await client.chat.completions.create', request.body),
        'console.log(answer.choices[0]?.message.content)',
      ]
    case 'responses':
      return [
        ...call('const response = await client.responses.create', request.body),
        'console.log(response.output_text)',
      ]
    case 'compact':
      return [
        ...call('const compacted = await client.responses.compact', request.body),
        'console.log(compacted.output[0]?.id)',
      ]
    case 'messages':
      return [
        ...call('const message = await client.messages.create', request.body),
        "for (const block of message.content) if (block.type === 'text') console.log(block.text)",
      ]
    case 'count':
      return [
        ...call('const count = await client.messages.countTokens', request.body),
        'console.log(count.input_tokens)',
      ]
    case 'generations':
      return [
        ...call('const images = await client.images.generate', request.body),
        'console.log(images.data?.[0]?.b64_json)',
      ]
    case 'embeddings':
      return [
        ...call('const made = await client.embeddings.create', request.body),
        'console.log(made.data[0]?.embedding.length)',
      ]
    case 'edits': {
      const image = new Source("createReadStream('photo.png')")
      const body = { model: 'gpt-image', prompt: 'Add a sailing boat', image }
      return [...call('const images = await client.images.edit', body), 'console.log(images.data?.[0]?.b64_json)']
    }
  }
}

function streamLines(request: SampleRequest): readonly string[] | undefined {
  switch (request.kind) {
    case 'chat':
      return [
        ...call('const stream = await client.chat.completions.create', { ...request.body, stream: true }),
        "for await (const chunk of stream) process.stdout.write(chunk.choices[0]?.delta.content ?? '')",
      ]
    case 'responses':
      return [
        ...call('const stream = await client.responses.create', { ...request.body, stream: true }),
        'for await (const event of stream) {',
        "  if (event.type === 'response.output_text.delta') process.stdout.write(event.delta)",
        '}',
      ]
    case 'messages':
      return [
        ...call('const stream = client.messages.stream', request.body),
        "stream.on('text', (text) => process.stdout.write(text))",
        'await stream.done()',
      ]
    default:
      return undefined
  }
}
