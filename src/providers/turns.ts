/**
 * A conversation as strict providers want it: system text apart, user and assistant in turn, the results of calls at the head of the user
 * turn behind them, no empty text (wire.md D3). Anthropic, Gemini and Bedrock are built from it.
 */

import type { CacheMark, ChatRequest, ImagePart, Message, TextPart, Tool, UserPart } from '../core/chat-request.ts'
import { ProviderError } from '../core/provider-error.ts'

type Of<Role extends Message['role']> = Extract<Message, { readonly role: Role }>
export type EarlierCall = Of<'assistant'>['toolCalls'][number]
export type ToolResult = Of<'tool'>

interface UserTurn {
  readonly role: 'user'
  readonly results: readonly ToolResult[]
  readonly parts: readonly (TextPart | ImagePart)[]
}

interface AssistantTurn {
  readonly role: 'assistant'
  readonly parts: readonly TextPart[]
  readonly calls: readonly EarlierCall[]
}

export type Turn = UserTurn | AssistantTurn

export interface Conversation {
  readonly system: readonly TextPart[]
  /** Begins with a user turn; no two neighbours have the same role; none is empty. */
  readonly turns: readonly Turn[]
}

/** Stands where a user turn must be and the caller has none. */
const PLACEHOLDER: TextPart = { type: 'text', text: '.' }

/**
 * System messages are hoisted in order, wherever they stand. Neighbours of one role become one turn. An assistant message without text
 * and calls is left out; a user message without content keeps its place, since without it the turns around it would merge. The request's own
 * cache mark goes to the last block. Throws a `ProviderError` that is `unsent` where a part is one that only Chat Completions servers know: the caller
 * is not to be answered about less than it sent.
 */
export function conversationOf(request: ChatRequest): Conversation {
  const system: TextPart[] = []
  const turns: OpenTurn[] = []
  for (const message of request.messages) {
    if (message.role === 'system') system.push(...solid(message.parts))
    else add(turns, message)
  }
  if (turns[0]?.role !== 'user') turns.unshift(openUser())
  for (const turn of turns) {
    if (turn.role === 'user' && turn.results.length === 0 && turn.parts.length === 0) turn.parts.push(PLACEHOLDER)
  }
  if (request.cache !== undefined) markLast(turns, request.cache)
  return { system, turns }
}

/** The turns with a final assistant text that does not end in white space: Claude refuses such a prefill. */
export function withoutTrailingSpace(turns: readonly Turn[]): readonly Turn[] {
  const last = turns.at(-1)
  const text = last?.role === 'assistant' && last.calls.length === 0 ? last.parts.at(-1) : undefined
  if (last?.role !== 'assistant' || text === undefined) return turns
  const trimmed = { ...text, text: text.text.trimEnd() }
  return [...turns.slice(0, -1), { ...last, parts: [...last.parts.slice(0, -1), trimmed] }]
}

/** The names of the tools that were called so far, each once, in order. */
export function calledNames(turns: readonly Turn[]): readonly string[] {
  return [...new Set(turns.flatMap((turn) => (turn.role === 'assistant' ? turn.calls.map((call) => call.name) : [])))]
}

/** The tools that the model may see: of a choice among some of them, only those, for providers that cannot be told a subset. */
export function offeredTools(request: ChatRequest): readonly Tool[] {
  const choice = request.toolChoice
  if (choice?.mode !== 'allowed') return request.tools
  const names = new Set(choice.names)
  return request.tools.filter((tool) => names.has(tool.name))
}

/** Text that is not blank: every provider refuses blocks of white space alone. */
export function solid<Part extends TextPart | ImagePart>(parts: readonly Part[]): Part[] {
  return parts.filter((part) => part.type !== 'text' || part.text.trim() !== '')
}

interface OpenUser {
  readonly role: 'user'
  readonly results: ToolResult[]
  readonly parts: (TextPart | ImagePart)[]
}

interface OpenAssistant {
  readonly role: 'assistant'
  readonly parts: TextPart[]
  readonly calls: EarlierCall[]
}

type OpenTurn = OpenUser | OpenAssistant

function openUser(): OpenUser {
  return { role: 'user', results: [], parts: [] }
}

function add(turns: OpenTurn[], message: Exclude<Message, Of<'system'>>): void {
  switch (message.role) {
    case 'user':
      userTurn(turns).parts.push(...solid(message.parts.map(known)))
      return
    case 'tool':
      userTurn(turns).results.push(message)
      return
    case 'assistant': {
      const parts = solid(message.parts)
      if (message.refusal !== undefined) parts.push(...solid([{ type: 'text', text: message.refusal }]))
      if (parts.length === 0 && message.toolCalls.length === 0) return
      const turn = assistantTurn(turns)
      turn.parts.push(...parts)
      turn.calls.push(...message.toolCalls)
    }
  }
}

function known(part: UserPart): TextPart | ImagePart {
  if (part.type !== 'native') return part
  const type = JSON.stringify(part.json['type'])
  throw new ProviderError('rejected', `This model takes text and images, not parts of type ${type}.`, { unsent: true })
}

function userTurn(turns: OpenTurn[]): OpenUser {
  const last = turns.at(-1)
  if (last?.role === 'user') return last
  const turn = openUser()
  turns.push(turn)
  return turn
}

function assistantTurn(turns: OpenTurn[]): OpenAssistant {
  const last = turns.at(-1)
  if (last?.role === 'assistant') return last
  const turn: OpenAssistant = { role: 'assistant', parts: [], calls: [] }
  turns.push(turn)
  return turn
}

/** Automatic caching is a mark on the last block; a mark that already stands there holds. */
function markLast(turns: readonly OpenTurn[], cache: CacheMark): void {
  const turn = turns.at(-1)
  if (turn === undefined) return
  if (turn.role === 'assistant') {
    if (turn.calls.length > 0) mark(turn.calls, cache)
    else mark(turn.parts, cache)
  } else if (turn.parts.length > 0) mark(turn.parts, cache)
  else mark(turn.results, cache)
}

function mark<Block extends { readonly cache?: CacheMark | undefined }>(blocks: Block[], cache: CacheMark): void {
  const last = blocks.at(-1)
  if (last !== undefined && last.cache === undefined) blocks[blocks.length - 1] = { ...last, cache }
}
