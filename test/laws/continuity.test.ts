/**
 * Thoughts of models, over random conversations of several organisations and targets with a store that forgets: a
 * target gets exactly what it issued, in its place, or nothing of an answer; and nothing of another's.
 */

import { expect } from 'bun:test'
import type { StreamEvent } from '../../src/core/event.ts'
import type { EntryThoughts, ThoughtStore } from '../../src/core/thoughts.ts'
import { issuerOf, ThinkingTargets, ThoughtMemory } from '../../src/gateway/thought-memory.ts'
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

let marks = 0

function answerOf(random: Random): readonly Piece[] {
  const pieces: Piece[] = []
  const think = () => {
    while (random.chance(0.5)) pieces.push({ kind: 'thought', mark: `"thought ${marks++}"` })
  }
  think()
  if (random.chance(0.6)) pieces.push({ kind: 'text', text: random.pick(['OK.', 'Let me see.', 'é "x"\n']) })
  const calls = random.below(3)
  for (let call = 0; call < calls; call++) {
    think()
    // Some servers number the calls of each answer.
    const id = random.chance(0.5) ? `call_${marks++}_of_a_real_provider` : `${call}`
    pieces.push({ kind: 'call', id })
  }
  if (pieces.every(({ kind }) => kind === 'thought')) pieces.push({ kind: 'text', text: 'Done.' })
  return pieces
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

/** The message that a caller sends back, with white space that it trims. */
function messageOf(pieces: readonly Piece[], random: Random): Message {
  const texts = pieces.flatMap((piece) => (piece.kind === 'text' ? [piece.text] : []))
  const written = random.chance(0.5) ? texts : texts.map((one) => one.trim())
  return {
    role: 'assistant',
    parts: written.map((one) => ({ type: 'text', text: one })),
    toolCalls: pieces.flatMap((piece) => (piece.kind === 'call' ? [{ callId: piece.id, name: 'f', json: '{}' }] : [])),
  }
}

/** What of a conversation's answers comes back, each as a list of its pieces with the thoughts in their places. */
function givenBack(messages: readonly Message[], thoughts: EntryThoughts | undefined): readonly string[][] {
  const { conversation } = plainRequest({ messages })
  const answers: string[][] = []
  let open = false
  for (let entry = 0; entry < conversation.end; entry = conversation.next(entry)) {
    const kind = conversation.kindAt(entry)
    if (kind <= 3) {
      open = kind === 2
      if (open) answers.push([])
      continue
    }
    if (!open) continue
    const before = thoughts?.before(entry) ?? []
    // A text, or the id of a call.
    if (kind === 4 || kind === 6) answers.at(-1)?.push(...before, conversation.textAt(entry).trim())
  }
  return answers
}

function expected({ pieces }: Issued, withThoughts: boolean): readonly string[] {
  const shown = pieces.flatMap((piece) => {
    if (piece.kind === 'thought') return withThoughts ? [piece.mark] : []
    return [piece.kind === 'text' ? piece.text.trim() : piece.id]
  })
  return shown
}

property('a target gets what it issued, in its place, or nothing of an answer', 60, async (random) => {
  let now = 0
  const bytesMax = random.pick([8 * 1024, 1024 * 1024])
  const items = new LocalItemStore({ ttlSeconds: 100, bytesMax, organizationBytesMax: bytesMax, nowMs: () => now })
  const store: ThoughtStore = {
    get: (organization, keys) => keys.map((key) => items.getText(organization, key)),
    put: (organization, key, json) => items.put(organization, [{ id: key, json }]),
  }
  const memoryOf = () => new ThoughtMemory(store, new ThinkingTargets())
  let memory = memoryOf()
  const dialogues: Dialogue[] = []
  let found = 0
  for (let step = 0; step < 60; step++) {
    if (random.chance(0.05)) memory = memoryOf()
    if (random.chance(0.05)) now += random.below(60_000)
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
    const recalled = await memory.recall(organization, conversation)
    const id = issuerOf(ISSUERS[issuer] ?? endpoint(), 'm', 'messages')
    const { thoughts, counts } = recalled?.for(id) ?? NOTHING
    const shown = givenBack(messages, thoughts)
    expect(shown.length).toBe(issued.length)
    for (const [at, one] of issued.entries()) {
      const own = one.issuer === issuer && one.organization === organization
      const [bare, whole] = [expected(one, false), expected(one, true)]
      if (own && Bun.deepEquals(shown[at], whole)) found++
      else expect(shown[at]).toEqual([...bare])
    }
    expect(counts.found + counts.missing + counts.otherIssuer).toBe(issued.length)
    const pieces = answerOf(random)
    const isWhole = random.chance(0.9)
    const keeper = memory.keeper(organization, conversation, TARGET, id)
    for (const event of eventsOf(pieces, isWhole)) keeper.event(event)
    // A caller repeats a request whose stream broke off.
    if (!isWhole) continue
    issued.push({ organization, issuer, pieces })
    messages.push(messageOf(pieces, random))
    const calls = pieces.filter(({ kind }) => kind === 'call')
    for (const call of calls)
      if (call.kind === 'call')
        messages.push({ role: 'tool', callId: call.id, parts: [{ type: 'text', text: 'x' }], isError: undefined })
    if (calls.length === 0) messages.push(text(random.pick(['Go on.', 'And?'])))
  }
  // It gives back something at all.
  if (bytesMax > 100_000) expect(found).toBeGreaterThan(0)
})
