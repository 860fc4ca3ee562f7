/** Tool names in the form that a provider accepts: others are cleaned and shortened, and restored in its answers. */

import { isLegalId } from '../core/call-id-set.ts'
import type { ChatRequest } from '../core/chat-request.ts'
import type { Entries } from '../core/conversation.ts'
import * as Kind from '../core/entry-kinds.ts'
import type { JsonBuilder } from '../core/json-builder.ts'

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
    const own = oddNamesIn(request, rule)
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

  /** Writes the name to send of an entry, as the inside of a string. */
  write(json: JsonBuilder, entries: Entries, name: number): void {
    if (this.areChanged) json.inside(this.sent(entries.textAt(name)))
    else json.entry(entries, name)
  }

  /** Whether any name was changed. Otherwise all of them may be sent as they were written. */
  get areChanged(): boolean {
    return this.ownOf.size > 0
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

/** Undefined if every name is legal: they are not decoded to find that out. */
function oddNamesIn(request: ChatRequest, rule: NameRule): ReadonlySet<string> | undefined {
  const { toolChoice } = request
  const tools = request.tools
  const conversation = request.conversation
  const isOdd = hasOddName(tools, rule) || hasOddName(conversation, rule)
  if (!isOdd && (toolChoice?.mode !== 'tool' || rule.legal.test(toolChoice.name))) return undefined
  return namesIn(request)
}

function namesIn({ tools, conversation, toolChoice }: ChatRequest): ReadonlySet<string> {
  const names = new Set<string>()
  for (const list of [tools, conversation]) forEachName(list, (entry) => names.add(list.textAt(entry)))
  return toolChoice?.mode === 'tool' ? names.add(toolChoice.name) : names
}

function hasOddName(list: Entries, { legal, charsMax }: NameRule): boolean {
  if (!list.has(Kind.NAME)) return false
  const { arena } = list
  for (let entry = 0; entry < list.end; entry = list.next(entry)) {
    if (list.kindAt(entry) !== Kind.NAME) continue
    const from = list.fromAt(entry)
    // Too long, however it is written: megabytes of escapes are not decoded to find that out.
    if (list.toAt(entry) - from > ESCAPE_BYTES * charsMax) return true
    const buffer = arena.bufferAt(from)
    const start = arena.indexAt(from)
    // Legal for every provider.
    if ((buffer[start] ?? 0) >= LETTERS && isLegalId(buffer, start, arena.indexAt(from, list.toAt(entry)))) continue
    if (!legal.test(list.textAt(entry))) return true
  }
  return false
}

/** The first letter in ASCII, after digits and dashes. */
const LETTERS = 0x41
/** The longest form of a character in JSON. */
const ESCAPE_BYTES = 6

function forEachName(list: Entries, visit: (entry: number) => void): void {
  if (!list.has(Kind.NAME)) return
  for (let entry = 0; entry < list.end; entry = list.next(entry)) if (list.kindAt(entry) === Kind.NAME) visit(entry)
}
