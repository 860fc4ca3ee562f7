/**
 * A conversation in the form of Anthropic, Gemini and Bedrock: system text apart, user and assistant alternating, the
 * results of calls at the start of the following user turn, no empty text.
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
  /** Begins with a user turn; roles alternate; no turn is empty. */
  readonly turns: readonly Turn[]
}

/** The text of a user turn that must exist and that the caller did not send. */
const PLACEHOLDER: TextPart = { type: 'text', text: '.' }

/**
 * System messages are moved to the front in order. Adjacent messages of one role become one turn. An assistant message
 * without text and calls is left out; a user message without content stays, because the turns around it would merge
 * without it. The request's own cache mark goes to the last block.
 *
 * Throws `ProviderError` `rejected` with `unsent` for a part that only Chat Completions servers accept: a request must
 * not be answered without a part of it.
 */
export function conversationOf(request: Pick<ChatRequest, 'messages' | 'cache'>): Conversation {
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

/** The turns without trailing white space in a final assistant text: Claude rejects such a prefill. */
export function withoutTrailingSpace(turns: readonly Turn[]): readonly Turn[] {
  const last = turns.at(-1)
  const text = last?.role === 'assistant' && last.calls.length === 0 ? last.parts.at(-1) : undefined
  if (last?.role !== 'assistant' || text === undefined) return turns
  const trimmed = { ...text, text: text.text.trimEnd() }
  return [...turns.slice(0, -1), { ...last, parts: [...last.parts.slice(0, -1), trimmed] }]
}

/** The names of the tools called so far, each once, in order. */
export function calledNames(turns: readonly Turn[]): readonly string[] {
  return [...new Set(turns.flatMap((turn) => (turn.role === 'assistant' ? turn.calls.map((call) => call.name) : [])))]
}

/**
 * The tools to offer. If the caller allows only some, those alone: for providers that cannot limit the choice
 * themselves.
 */
export function offeredTools(request: ChatRequest): readonly Tool[] {
  const choice = request.toolChoice
  if (choice?.mode !== 'allowed') return request.tools
  const names = new Set(choice.names)
  return request.tools.filter((tool) => names.has(tool.name))
}

/** Without blank text: every provider rejects blocks of white space. */
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

/** Automatic caching is a mark on the last block; a mark that is already there stays. */
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
