/** Names of tools as a provider takes them: those that break its rule are cleaned and shortened, and mapped back in its answers. */

import type { ChatRequest } from '../core/chat-request.ts'

/** What a provider says of names. */
export interface NameRule {
  readonly legal: RegExp
  /** Every character that may stand nowhere in a name; global. */
  readonly illegal: RegExp
  readonly charsMax: number
}

/** OpenAI, Azure and Bedrock. */
export const NAMES_OF_64: NameRule = { legal: /^[a-zA-Z0-9_-]{1,64}$/, illegal: /[^a-zA-Z0-9_-]/g, charsMax: 64 }
/** Anthropic. */
export const NAMES_OF_128: NameRule = { legal: /^[a-zA-Z0-9_-]{1,128}$/, illegal: /[^a-zA-Z0-9_-]/g, charsMax: 128 }

/** 40 bits: two of a request's names meet once in 10^12 pairs, and even then only cost another round. */
const HASH_CHARS = 10

/**
 * The names of one request. The same name becomes the same bytes in every turn of a conversation, since it depends on nothing but itself
 * (only where two names would meet, on the other).
 */
export class ToolNames {
  private readonly sentOf = new Map<string, string>()
  private readonly ownOf = new Map<string, string>()

  constructor(
    request: ChatRequest,
    private readonly rule: NameRule,
  ) {
    const own = namesIn(request)
    // Legal names first: none of them may be taken by a cleaned one.
    for (const name of own) if (rule.legal.test(name)) this.sentOf.set(name, name)
    for (const name of own) if (!this.sentOf.has(name)) this.rename(name)
  }

  /** The name as the provider gets it. One that the request does not hold is cleaned all the same. */
  sent(name: string): string {
    return this.sentOf.get(name) ?? fitted(name, this.rule)
  }

  /** Sent → own, for `UpstreamRequest`; undefined where every name was sent as it is. */
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

/** Any text as a legal name: what may stay of it and a hash of all of it. A legal one is given back as it is. */
export function fitted(name: string, rule: NameRule, salted = name): string {
  if (salted === name && rule.legal.test(name)) return name
  const hash = new Bun.CryptoHasher('sha256').update(salted).digest('hex').slice(0, HASH_CHARS)
  const clean = name.slice(0, rule.charsMax - HASH_CHARS - 2).replace(rule.illegal, '_')
  const candidate = `${clean}_${hash}`
  return rule.legal.test(candidate) ? candidate : `_${candidate}`
}

function namesIn(request: ChatRequest): Set<string> {
  const names = new Set(request.tools.map((tool) => tool.name))
  for (const message of request.messages) {
    if (message.role === 'assistant') for (const call of message.toolCalls) names.add(call.name)
  }
  if (request.toolChoice?.mode === 'tool') names.add(request.toolChoice.name)
  return names
}
