/**
 * Thoughts of a model that its provider wants back with the conversation, such as a signed block of thinking. Only the
 * adapter that read them knows what is in them. weir keeps them between two requests; callers see them, sealed, only in
 * native mode (`gateway/shown-thoughts.ts`).
 */

import type { Conversation } from './conversation.ts'
import type { JsonBuilder } from './json-builder.ts'

/** Where a thought belongs in its answer: before its text, with its text, with all of it, … */
export const BEFORE_TEXT = 0
export const WITH_TEXT = 1
export const WITH_ANSWER = 2
/** … before the call of this index, or with it. */
export const beforeCall = (index: number): number => 3 + 2 * index
export const withCall = (index: number): number => 4 + 2 * index

/** … or before the block of this index among those of the provider's own API, such as a search that it has made. */
export const beforeOwn = (index: number): number => -1 - index

/** A place from `beforeOwn` as the index of its block; undefined for the other places. */
export function ownOf(place: number): number | undefined {
  return place < 0 ? -1 - place : undefined
}

/** A place from `beforeCall` or `withCall` as the index of its call; undefined for the other places. */
export function callOf(place: number): { readonly index: number; readonly isBefore: boolean } | undefined {
  return place < 3 ? undefined : { index: (place - 3) >> 1, isBefore: (place - 3) % 2 === 0 }
}

/** One thought: JSON in the form of its provider's API. */
export interface Thought {
  readonly place: number
  readonly json: string
  /** If it stands within the text of its answer: how much of that text follows it, in UTF-16 units. */
  readonly left?: number | undefined
}

/** In whose form thoughts are written: an API gets no thoughts in the form of another. */
export type ThoughtForm = 'messages' | 'converse' | 'gemini' | 'responses' | 'chat'

/** Whether a thought is a signature: a member of its text or its call. Others are pieces before what they belong to. */
export function isSignature(form: string | undefined): boolean {
  return form === 'gemini'
}

/** Who issued thoughts: only it can read them. */
export interface Issuer {
  /** The provider's entry, a digest of its credential, and its name of the model. */
  readonly id: string
  readonly form: ThoughtForm
}

/** Thoughts for one target, what they take of its input, and the conversation to whose entries they belong. */
export interface TargetThoughts extends EntryThoughts {
  readonly tokens: number
  /** The conversation with its answers as the target gave them; the same if callers send them back so. */
  restored(conversation: Conversation): Conversation
}

/** Encrypts what callers get of thoughts, so that only the same organization can send it back. */
export interface ThoughtSealer {
  seal(purpose: 'reasoning', organization: string, text: string): Buffer
  /** Undefined if these bytes were not sealed for it. */
  open(purpose: 'reasoning', organization: string, sealed: Buffer): string | undefined
}

/** The thoughts for one request to one target. `entry`: of the conversation, a text, a call or a message. */
export interface EntryThoughts {
  readonly form: ThoughtForm
  /** Those that come before an entry. */
  before(entry: number): readonly string[]
  /** That which belongs to an entry. */
  with(entry: number): string | undefined
}

/** Writes the thoughts that come before an entry, and a comma after each. */
export function writeThoughtsBefore(entry: number, thoughts: EntryThoughts | undefined, json: JsonBuilder): void {
  if (thoughts !== undefined) for (const thought of thoughts.before(entry)) json.text(`${thought},`)
}

/** Requests of the same moment share one. */
export interface MarksQuestion {
  /** Whether a look-up waits for the answer, because most are in vain; else it is sent at the same time. */
  readonly isFirst: boolean
  /** Whether there are marks that this machine has not learned yet. Never rejects. */
  readonly areNew: Promise<boolean>
}

/** Keeps thoughts by keys, as text. No organisation gets those of another. */
export interface ThoughtStore {
  /** What is kept under each key, in their order. Never rejects: what cannot be read is missing. */
  get(
    organization: string,
    keys: readonly string[],
  ): Promise<readonly (string | undefined)[]> | readonly (string | undefined)[]
  /** Never throws: what cannot be kept is dropped. */
  put(organization: string, key: string, text: string): void
  /** Sets the mark of an organisation and a target that thinks for other machines, too. Absent for one machine. */
  mark?(mark: number): void
  /** Asks for the marks of other machines; undefined if they were asked for just now. `learn` takes each of them. */
  marks?(learn: (mark: number) => void): MarksQuestion | undefined
  /** Called once, after a reload has replaced the store. */
  close?(): void
}
