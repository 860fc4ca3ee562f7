/**
 * What an answer of the gateway means, whatever its dialect: whole bodies by their fields, streams by the strict
 * grammars.
 */

import { isArray, isObject, type JsonObject, type JsonValue } from '../../src/core/json.ts'
import type { DialectName } from '../../src/dialects/dialect.ts'
import { checkChatStream } from './chat-grammar.ts'
import { checkMessagesStream } from './messages-grammar.ts'
import { checkResponsesStream } from './responses-grammar.ts'
import { checkCompletedResponse } from './responses-schema.ts'

export interface Meaning {
  readonly text: string
  readonly calls: readonly { readonly id: string; readonly name: string; readonly input: unknown }[]
  /** The dialect's own word. */
  readonly finish: string
  readonly input: number
  readonly output: number
}

/**
 * Throws where the text is no whole answer of the dialect. `includeUsage`: what a Chat Completions stream was asked
 * for.
 */
export function meaningOf(dialect: DialectName, streamed: boolean, text: string, includeUsage = true): Meaning {
  switch (dialect) {
    case 'chat':
      return streamed ? chatStream(text, includeUsage) : chatBody(JSON.parse(text))
    case 'responses':
      return responsesBody(streamed ? checkResponsesStream(text).response : JSON.parse(text))
    case 'messages':
      return streamed ? messagesStream(text) : messagesBody(JSON.parse(text))
  }
}

const objects = (value: JsonValue | undefined): readonly JsonObject[] => (isArray(value) ? value.filter(isObject) : [])
const objectOf = (value: JsonValue | undefined): JsonObject => (isObject(value) ? value : {})

function chatStream(stream: string, includeUsage: boolean): Meaning {
  const { text, refusal, toolCalls, finishReason, usage } = checkChatStream(stream, { includeUsage })
  const calls = toolCalls.map(({ id, name, arguments: json }) => ({ id, name, input: JSON.parse(json) }))
  return { text: text + refusal, calls, finish: finishReason, ...chatUsage(usage) }
}

function chatBody(body: JsonObject): Meaning {
  const choices = objects(body['choices'])
  if (choices.length !== 1) throw new Error(`not one choice: ${JSON.stringify(body)}`)
  const { message, finish_reason: finish } = choices[0] ?? {}
  const { content, refusal, tool_calls: made } = objectOf(message)
  const calls = objects(made).map((call) => {
    const { name, arguments: json } = objectOf(call['function'])
    return { id: String(call['id']), name: String(name), input: JSON.parse(String(json)) }
  })
  return {
    text: `${content ?? ''}${refusal ?? ''}`,
    calls,
    finish: String(finish),
    ...chatUsage(objectOf(body['usage'])),
  }
}

function chatUsage(usage: JsonObject = {}): Pick<Meaning, 'input' | 'output'> {
  return { input: Number(usage['prompt_tokens']), output: Number(usage['completion_tokens']) }
}

function responsesBody(body: JsonObject): Meaning {
  checkCompletedResponse(body)
  const output = objects(body['output'])
  const text = output.flatMap((item) => objects(item['content']).map((part) => part['text'])).join('')
  const calls = output
    .filter((item) => item['type'] === 'function_call')
    .map(({ call_id, name, namespace, arguments: json }) => ({
      id: String(call_id),
      name: namespace === undefined ? String(name) : `${namespace}/${name}`,
      input: JSON.parse(String(json)),
    }))
  const usage = objectOf(body['usage'])
  const finish = String(body['status'])
  return { text, calls, finish, input: Number(usage['input_tokens']), output: Number(usage['output_tokens']) }
}

function messagesStream(stream: string): Meaning {
  const { blocks, stopReason, usages } = checkMessagesStream(stream)
  const text = blocks.map((block) => (block.type === 'text' ? block.content : '')).join('')
  const calls = blocks.flatMap(({ type, id = '', name = '', content }) =>
    type === 'tool_use' ? [{ id, name, input: JSON.parse(content || '{}') }] : [],
  )
  const [, usage] = usages
  return { text, calls, finish: stopReason, ...messagesUsage(usage) }
}

function messagesBody(body: JsonObject): Meaning {
  const content = objects(body['content'])
  const text = content.map((block) => block['text'] ?? '').join('')
  const calls = content
    .filter((block) => block['type'] === 'tool_use')
    .map(({ id, name, input }) => ({ id: String(id), name: String(name), input }))
  return { text, calls, finish: String(body['stop_reason']), ...messagesUsage(objectOf(body['usage'])) }
}

function messagesUsage(usage: JsonObject): Pick<Meaning, 'input' | 'output'> {
  return { input: Number(usage['input_tokens']), output: Number(usage['output_tokens']) }
}
