/** Examples in Python, with the official SDKs. */

import { isOfAnthropic, type Program, type SampleRequest, sdkBase } from './sample-request.ts'

export function pythonPrograms(request: SampleRequest): Program {
  const name = isOfAnthropic(request) ? 'Anthropic' : 'OpenAI'
  const head = [
    'import os',
    `from ${name.toLowerCase()} import ${name}`,
    '',
    `client = ${name}(base_url="${sdkBase(request)}", api_key=os.environ["WEIR_KEY"])`,
  ]
  const stream = streamLines(request)
  return {
    whole: [...head, ...wholeLines(request)].join('\n'),
    stream: stream && [...head, ...stream].join('\n'),
  }
}

/** `before(`, an argument on each line, `)after`. */
function call(before: string, body: object, after = ''): readonly string[] {
  const lines = Object.entries(body).map(([name, value]) => `    ${name}=${literal(value)},`)
  return [`${before}(`, ...lines, `)${after}`]
}

/** Source text within a body. */
class Source {
  constructor(readonly text: string) {}
}

function literal(value: unknown): string {
  if (value instanceof Source) return value.text
  if (value === true) return 'True'
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const members = Object.entries(value).map(([name, each]) => `"${name}": ${literal(each)}`)
  return `{${members.join(', ')}}`
}

function wholeLines(request: SampleRequest): readonly string[] {
  switch (request.kind) {
    case 'models':
    case 'anthropic models':
      return ['for model in client.models.list():', '    print(model.id)']
    case 'chat':
      return [
        ...call('answer = client.chat.completions.create', request.body),
        'print(answer.choices[0].message.content)',
      ]
    case 'responses':
      return [...call('response = client.responses.create', request.body), 'print(response.output_text)']
    case 'compact':
      return [...call('compacted = client.responses.compact', request.body), 'print(compacted.output[0].id)']
    case 'messages':
      return [...call('message = client.messages.create', request.body), 'print(message.content[0].text)']
    case 'count':
      return [...call('count = client.messages.count_tokens', request.body), 'print(count.input_tokens)']
    case 'generations':
      return [...call('images = client.images.generate', request.body), 'print(images.data[0].b64_json)']
    case 'embeddings':
      return [...call('made = client.embeddings.create', request.body), 'print(len(made.data[0].embedding))']
    case 'edits': {
      const image = new Source('open("photo.png", "rb")')
      const body = { model: 'gpt-image', prompt: 'Add a sailing boat', image }
      return [...call('images = client.images.edit', body), 'print(images.data[0].b64_json)']
    }
  }
}

function streamLines(request: SampleRequest): readonly string[] | undefined {
  switch (request.kind) {
    case 'chat':
      return [
        ...call('stream = client.chat.completions.create', { ...request.body, stream: true }),
        'for chunk in stream:',
        '    for choice in chunk.choices:',
        '        print(choice.delta.content or "", end="")',
      ]
    case 'responses':
      return [
        ...call('stream = client.responses.create', { ...request.body, stream: true }),
        'for event in stream:',
        '    if event.type == "response.output_text.delta":',
        '        print(event.delta, end="")',
      ]
    case 'messages':
      return [
        ...call('with client.messages.stream', request.body, ' as stream:'),
        '    for text in stream.text_stream:',
        '        print(text, end="")',
      ]
    default:
      return undefined
  }
}
