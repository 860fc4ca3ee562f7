/**
 * Thoughts of models, over random conversations of several organisations and targets with a store that forgets: a
 * target gets exactly what it issued, in its place, or nothing of an answer; and nothing of another's.
 */

import { expect } from 'bun:test'
import * as Kind from '../../src/core/entry-kinds.ts'
import type { StreamEvent } from '../../src/core/event.ts'
import type { TargetThoughts, ThoughtStore } from '../../src/core/thoughts.ts'
import { issuerFor } from '../../src/gateway/thought-issuer.ts'
import { ThinkingTargets, ThoughtMemory } from '../../src/gateway/thought-memory.ts'
import { LocalItemStore } from '../../src/items/local-item-store.ts'
import { endpoint, plainRequest } from '../providers/requests.ts'
import type { Message } from '../support/literal.ts'
import { property, type Random } from '../support/random.ts'

/** What the model did in one answer, piece by piece. A thought has a text that no other has. */
type Piece =
  | { readonly kind: 'thought'; readonly mark: string }
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'call'; readonly id: string }

interface Issued {
  readonly organization: string
  readonly issuer: number
  readonly pieces: readonly Piece[]
  /** False if text came first, and its target was not known to think. */
  readonly isKept: boolean
}

interface Dialogue {
  readonly organization: string
  readonly messages: Message[]
  /** By the index of the answer among those of the dialogue. */
  readonly issued: Issued[]
}

const ORGANIZATIONS = ['o', 'p'] as const
/** Two entries of one provider, and two keys of one entry. */
const ISSUERS = [
  endpoint({ name: 'a', apiKey: 'key-1' }),
  endpoint({ name: 'b', apiKey: 'key-1' }),
  endpoint({ name: 'a', apiKey: 'key-2' }),
]
const NOTHING = { thoughts: undefined, counts: { found: 0, missing: 0, otherIssuer: 0 } }
const TARGET = { provider: 'a', model: 'm' }
const text = (value: string): Message => ({ role: 'user', parts: [{ type: 'text', text: value }] })

const TEXTS: readonly [string, ...string[]] = ['OK.', ' Let me see. ', 'é "x"\n', '\n\n', '\\ 😀\u0007', '漢😀']
/** The last result of an answer. */
const LAST = 'last'

let marks = 0

function answerOf(random: Random): readonly Piece[] {
  const pieces: Piece[] = []
  const think = () => {
    while (random.chance(0.5)) pieces.push({ kind: 'thought', mark: `"thought ${marks++}"` })
  }
  think()
  while (random.chance(0.5)) {
    pieces.push({ kind: 'text', text: random.pick(TEXTS) })
    think()
  }
  const calls = random.below(3)
  for (let call = 0; call < calls; call++) {
    think()
    // Some servers number the calls of each answer.
    const id = random.chance(0.5) ? `call_${marks++}_of_a_real_provider` : `${call}`
    pieces.push({ kind: 'call', id })
  }
  if (!pieces.some((piece) => piece.kind === 'call' || (piece.kind === 'text' && isSolid(piece))))
    pieces.push({ kind: 'text', text: 'Done.' })
  return pieces
}

function isSolid({ text }: { readonly text: string }): boolean {
  return text.trim() !== ''
}

function eventsOf(pieces: readonly Piece[], isWhole: boolean): readonly StreamEvent[] {
  let calls = 0
  const events = pieces.flatMap((piece): StreamEvent[] => {
    if (piece.kind === 'thought') return [{ type: 'thought', json: piece.mark }]
    if (piece.kind === 'text') return [{ type: 'text', text: piece.text }]
    const index = calls++
    return [
      { type: 'tool-start', index, callId: piece.id, name: 'f' },
      { type: 'tool-delta', index, json: '{}' },
    ]
  })
  const end: StreamEvent[] = isWhole ? [{ type: 'finish', reason: 'stop' }, { type: 'end' }] : []
  return [{ type: 'start' }, ...events, ...end]
}

/**
 * The messages that a caller sends back: its texts joined or apart, with white space that it trims; texts and calls in
 * one message or two; and its calls together or each with its result.
 */
function messagesOf(pieces: readonly Piece[], random: Random): readonly Message[] {
  const texts = pieces.flatMap((piece) => (piece.kind === 'text' ? [piece.text] : []))
  const joined = random.chance(0.6) ? [texts.join('')] : texts
  const isTrimmed = joined.length === 1 && random.chance(0.5)
  const parts = joined.map((one) => ({ type: 'text' as const, text: isTrimmed ? one.trim() : one }))
  const calls = pieces.flatMap((piece) => (piece.kind === 'call' ? [{ callId: piece.id, name: 'f', json: '{}' }] : []))
  const results = calls.map(
    ({ callId }, index): Message => ({
      ...{ role: 'tool', callId, isError: undefined },
      parts: [{ type: 'text', text: index === calls.length - 1 ? LAST : 'x' }],
    }),
  )
  if (calls.length > 1 && random.chance(0.3)) {
    return calls.flatMap((call, index): Message[] => {
      const message: Message = { role: 'assistant', parts: index === 0 ? parts : [], toolCalls: [call] }
      return [message, ...results.slice(index, index + 1)]
    })
  }
  if (calls.length > 0 && random.chance(0.3)) {
    return [{ role: 'assistant', parts, toolCalls: [] }, { role: 'assistant', parts: [], toolCalls: calls }, ...results]
  }
  return [{ role: 'assistant', parts, toolCalls: calls }, ...results]
}

/** What of a conversation's answers comes back, each as a list of its pieces with the thoughts in their places. */
function givenBack(messages: readonly Message[], thoughts: TargetThoughts | undefined): readonly string[][] {
  const { conversation: sent } = plainRequest({ messages })
  const conversation = thoughts?.restored(sent) ?? sent
  const answers: Piece[][] = []
  let isOpen = false
  let isAnswer = false
  for (let entry = 0; entry < conversation.end; entry = conversation.next(entry)) {
    const kind = conversation.kindAt(entry)
    if (kind <= Kind.TOOL) {
      isAnswer = kind === Kind.ASSISTANT
      if (isAnswer && !isOpen) answers.push([])
      if (isAnswer) isOpen = true
      if (kind === Kind.USER) isOpen = false
      continue
    }
    const text = conversation.textAt(entry)
    if (!isAnswer && kind === Kind.TEXT && text === LAST) isOpen = false
    if (!isAnswer || (kind !== Kind.TEXT && kind !== Kind.CALL_ID)) continue
    for (const mark of thoughts?.before(entry) ?? []) answers.at(-1)?.push({ kind: 'thought', mark })
    answers.at(-1)?.push(kind === Kind.TEXT ? { kind: 'text', text } : { kind: 'call', id: text })
  }
  return answers.map((pieces) => written(pieces, true))
}

function expected({ pieces }: Issued, withThoughts: boolean): readonly string[] {
  // Nothing follows a thought at the end.
  const last = pieces.findLastIndex((piece) => piece.kind === 'call' || (piece.kind === 'text' && isSolid(piece)))
  return written(pieces.slice(0, last + 1), withThoughts)
}

/** Each piece as a text; texts that follow each other are one, and white space around it does not count. */
function written(pieces: readonly Piece[], withThoughts: boolean): string[] {
  const shown: string[] = []
  let text = ''
  const flush = () => {
    if (text.trim() !== '') shown.push(`text ${text.trim()}`)
    text = ''
  }
  for (const piece of pieces) {
    if (piece.kind === 'text') text += piece.text
    else if (piece.kind === 'call' || withThoughts) {
      flush()
      shown.push(piece.kind === 'call' ? `call ${piece.id}` : `thought ${piece.mark}`)
    }
  }
  flush()
  return shown
}

property('a target gets what it issued, in its place, or nothing of an answer', 60, async (random) => {
  let now = 0
  const form = random.pick(['messages', 'converse', 'responses'] as const)
  const bytesMax = random.pick([8 * 1024, 1024 * 1024])
  const items = new LocalItemStore({ ttlSeconds: 100, bytesMax, organizationBytesMax: bytesMax, nowMs: () => now })
  const store: ThoughtStore = {
    get: (organization, keys) => keys.map((key) => items.getText(organization, key)),
    put: (organization, key, json) => items.put(organization, [{ id: key, json }]),
  }
  const targets = new ThinkingTargets()
  const memoryOf = () => new ThoughtMemory(store, targets)
  let memory = memoryOf()
  const dialogues: Dialogue[] = []
  let found = 0
  /** How often something may have expired. */
  let lost = 0
  for (let step = 0; step < 60; step++) {
    if (random.chance(0.05)) memory = memoryOf()
    if (random.chance(0.05)) {
      now += random.below(60_000)
      lost++
    }
    if (dialogues.length === 0 || random.chance(0.15)) {
      const organization = random.pick(ORGANIZATIONS)
      // The same question in both organisations, and another in each conversation of one.
      const question = text(`${dialogues.filter((other) => other.organization === organization).length}`)
      dialogues.push({ organization, messages: [question], issued: [] })
    }
    const dialogue = dialogues[random.below(dialogues.length)]
    if (dialogue === undefined) throw new Error('no dialogue')
    const { organization, messages, issued } = dialogue
    const issuer = random.below(ISSUERS.length)
    const { conversation } = plainRequest({ messages })
    const recalled = await memory.recall(organization, [TARGET], conversation)
    const id = issuerFor(ISSUERS[issuer] ?? endpoint(), 'm', form)
    const { thoughts, counts } = recalled?.for(id) ?? NOTHING
    const shown = givenBack(messages, thoughts)
    expect(shown.length).toBe(issued.length)
    for (const [at, one] of issued.entries()) {
      const own = one.issuer === issuer && one.organization === organization
      const [bare, whole] = [expected(one, false), expected(one, true)]
      if (own && Bun.deepEquals(shown[at], whole)) found++
      else if (!Bun.deepEquals(shown[at], bare)) expect(shown[at]).toEqual([...(own ? whole : bare)])
      if (own && one.isKept && bytesMax > 100_000 && lost === 0) expect(shown[at]).toEqual([...whole])
    }
    // One that comes in pieces, and of which nothing is found, is several.
    if (recalled !== undefined)
      expect(counts.found + counts.missing + counts.otherIssuer).toBeGreaterThanOrEqual(issued.length)
    const pieces = answerOf(random)
    const isWhole = random.chance(0.9)
    const isKnown = targets.mayThink(organization, TARGET)
    const isKept = isKnown || pieces[0]?.kind !== 'text' || pieces.some(({ kind }) => kind === 'call')
    const keeper = memory.keeper(organization, conversation, TARGET, id)
    for (const event of eventsOf(pieces, isWhole)) keeper.event(event)
    // A caller repeats a request whose stream broke off.
    if (!isWhole) continue
    issued.push({ organization, issuer, pieces, isKept })
    messages.push(...messagesOf(pieces, random))
    if (messages.at(-1)?.role !== 'tool' || random.chance(0.2)) messages.push(text(random.pick(['Go on.', 'And?'])))
  }
  // It gives back something at all.
  if (bytesMax > 100_000) expect(found).toBeGreaterThan(0)
})
