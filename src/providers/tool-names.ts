/** Tool names in the form that a provider accepts: others are cleaned and shortened, and restored in its answers. */

import type { ChatRequest } from '../core/chat-request.ts'

/** The provider's rule for names. */
export interface NameRule {
  readonly legal: RegExp
  /** Matches every character that is illegal anywhere in a name; global. */
  readonly illegal: RegExp
  readonly charsMax: number
}

/** OpenAI, Azure and Bedrock. */
export const NAMES_OF_64: NameRule = { legal: /^[a-zA-Z0-9_-]{1,64}$/, illegal: /[^a-zA-Z0-9_-]/g, charsMax: 64 }
/** Anthropic. */
export const NAMES_OF_128: NameRule = { legal: /^[a-zA-Z0-9_-]{1,128}$/, illegal: /[^a-zA-Z0-9_-]/g, charsMax: 128 }

/** 40 bits: two names of a request collide once in 10^12 pairs, which then costs one more round. */
const HASH_CHARS = 10

/**
 * The names of one request. A name is sent as the same bytes in every turn of a conversation, because it depends on
 * nothing else (except, in a collision, on the other name).
 */
export class ToolNames {
  private readonly sentOf: Map<string, string>
  private readonly ownOf: Map<string, string>

  constructor(
    request: ChatRequest,
    private readonly rule: NameRule,
  ) {
    const own = isUsual(request, rule) ? undefined : namesIn(request)
    this.sentOf = own === undefined ? NONE : new Map()
    this.ownOf = own === undefined ? NONE : new Map()
    if (own === undefined) return
    // Legal names first, so that a cleaned name cannot take one of theirs.
    for (const name of own) if (rule.legal.test(name)) this.sentOf.set(name, name)
    for (const name of own) if (!this.sentOf.has(name)) this.rename(name)
  }

  /** The name to send. A name that the request does not contain is cleaned too. */
  sent(name: string): string {
    return this.sentOf.get(name) ?? fitted(name, this.rule)
  }

  /** Sent name → the caller's name, for `UpstreamRequest`; undefined if every name was sent unchanged. */
  get restore(): ReadonlyMap<string, string> | undefined {
    return this.ownOf.size === 0 ? undefined : this.ownOf
  }

  private rename(name: string): void {
    let sent = fitted(name, this.rule)
    for (let round = 1; this.ownOf.has(sent) || this.sentOf.has(sent); round++) {
      sent = fitted(name, this.rule, `${round}:${name}`)
    }
    this.sentOf.set(name, sent)
    this.ownOf.set(sent, name)
  }
}

/** Any text as a legal name: its legal characters and a hash of all of it. A legal name is returned unchanged. */
export function fitted(name: string, rule: NameRule, salted = name): string {
  if (salted === name && rule.legal.test(name)) return name
  const hash = new Bun.CryptoHasher('sha256').update(salted).digest('hex').slice(0, HASH_CHARS)
  const clean = name.slice(0, rule.charsMax - HASH_CHARS - 2).replace(rule.illegal, '_')
  const candidate = `${clean}_${hash}`
  return rule.legal.test(candidate) ? candidate : `_${candidate}`
}

/** For a request without any name, as most small ones are; never written to. */
const NONE = new Map<string, string>()

/** True if no name must be changed: those of unparsed messages and tools need not be read for that. */
function isUsual(request: ChatRequest, rule: NameRule): boolean {
  const { unparsed, toolChoice } = request
  if (unparsed?.messages === undefined) return false
  const isLegal = ({ name }: { readonly name: string }) => rule.legal.test(name)
  if (unparsed.tools === undefined && !request.tools.every(isLegal)) return false
  return toolChoice?.mode !== 'tool' || isLegal(toolChoice)
}

/** Undefined if there is none. */
function namesIn({ tools, messages, toolChoice }: ChatRequest): ReadonlySet<string> | undefined {
  let names: Set<string> | undefined
  for (const { name } of tools) {
    names ??= new Set()
    names.add(name)
  }
  for (const message of messages) {
    if (message.role !== 'assistant') continue
    for (const { name } of message.toolCalls) {
      names ??= new Set()
      names.add(name)
    }
  }
  return toolChoice?.mode === 'tool' ? new Set(names).add(toolChoice.name) : names
}
