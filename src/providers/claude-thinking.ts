/**
 * How much Claude is to think, in the words of Anthropic's Messages API, which Vertex AI and Bedrock take as well; and
 * what its rejections teach.
 */

import type { ChatRequest } from '../core/chat-request.ts'
import * as Kind from '../core/entry-kinds.ts'
import { isInterleaving } from '../core/own-fields.ts'
import type { ProviderError } from '../core/provider-error.ts'
import {
  ANSWER_TOKENS_MIN,
  budgetOf,
  effortOf,
  lowered,
  type Reasoning,
  wantsThoughts,
  wordOf,
} from '../core/reasoning.ts'
import type { EntryThoughts } from '../core/thoughts.ts'
import { type ClaudeThinking, EFFORT_LESSONS, type EffortGaps, takenBy } from './efforts.ts'
import { type Lesson, makeLesson, rejecting } from './learned-form.ts'
import { SAMPLING_LESSONS } from './rejected-sampling.ts'
import type { Turns } from './turns.ts'

/** How a target takes thinking, as far as its model's name shows it, or it has taught it. */
export interface ThinkingForm extends ClaudeThinking, EffortGaps {
  /** Its model takes no thinking at all. */
  readonly rejectsThinking?: boolean | undefined
  /** It cannot be turned off by name. */
  readonly rejectsOff?: boolean | undefined
  readonly rejectsEffort?: boolean | undefined
}

/** The fields of thinking in a request, in Anthropic's words. */
export interface Thinking {
  readonly thinking?: ThinkingField | undefined
  readonly effort?: string | undefined
  /** The limit of the answer, if it must be another. */
  readonly maxTokens?: number | undefined
  /** The model thinks, so that some settings are rejected. */
  readonly isOn: boolean
  /** The caller's fields that have no effect. */
  readonly ignored?: readonly string[] | undefined
}

/** A type and no interface, so that it is JSON. */
type ThinkingField = {
  readonly type: 'enabled' | 'adaptive' | 'disabled'
  readonly budget_tokens?: number
  readonly display?: string
}

/** A smaller budget is rejected. */
const BUDGET_TOKENS_MIN = 1024
const NOTHING: Thinking = { isOn: false }
/** The limit that is sent if the caller set none and the dialect has no default; what is thought comes on top. */
const OUTPUT_TOKENS_DEFAULT = 4096

/** `turns`: the conversation as it is sent; `thoughts`: what is sent with it. */
export function thinkingOf(
  request: ChatRequest,
  form: ThinkingForm,
  turns: Turns,
  thoughts: EntryThoughts | undefined,
  wantsBlank = false,
): Thinking {
  const { reasoning } = request
  if (reasoning === undefined) return NOTHING
  const isNone = form.rejectsThinking === true || !(form.takesBudget || form.takesAdaptive)
  const wanted = wantsThoughts(reasoning)
  const effort = effortFor(reasoning, form)
  if (isNone) return wanted === true ? { isOn: false, ignored: [reasoning.field] } : NOTHING
  if (reasoning.thinking === undefined && reasoning.field === 'output_config') return { effort, isOn: false }
  const isOn = wanted ?? reasoning.summary !== undefined
  if (!isOn)
    return wanted === undefined ? { effort, isOn: false } : { ...off(form), effort: ofMessages(reasoning, effort) }
  if (!takesThinking(request, turns)) return { ...off(form), ignored: [reasoning.field] }
  if (usesAdaptive(reasoning, form))
    return { thinking: { type: 'adaptive', ...displayOf(reasoning, form) }, effort, isOn }
  if (!wantsBlank && lacksThoughts(turns, thoughts)) return { ...off(form), ignored: [reasoning.field] }
  return budgeted(request, reasoning, { thinking: off(form).thinking, effort: ofMessages(reasoning, effort) })
}

/** A word that the caller of another dialect meant for thinking alone is not sent without it. */
function ofMessages({ field }: Reasoning, effort: string | undefined): string | undefined {
  return field === 'thinking' ? effort : undefined
}

function off(form: ThinkingForm): Thinking {
  return form.rejectsOff === true ? NOTHING : { thinking: { type: 'disabled' }, isOn: false }
}

function effortFor(reasoning: Reasoning, form: ThinkingForm): string | undefined {
  const { effort, thinking, budget } = reasoning
  // A model that takes the number of tokens needs no word for it.
  const stated =
    effort ?? (thinking === 'enabled' && !form.takesBudget && budget !== undefined ? wordOf(budget) : undefined)
  const taken = form.rejectsEffort === true ? [] : takenBy(form, form.claudeEfforts)
  return stated === undefined || stated === 'none' ? undefined : lowered(stated, taken)
}

function usesAdaptive({ thinking }: Reasoning, form: ThinkingForm): boolean {
  if (!form.takesBudget) return true
  if (!form.takesAdaptive) return false
  return thinking === undefined ? form.prefersAdaptive : thinking === 'adaptive'
}

/** Claude 4.7 and later show no thoughts unless they are asked to. */
function displayOf({ thinking, display, shows }: Reasoning, form: ThinkingForm): { readonly display?: string } {
  if (display !== undefined) return { display }
  return thinking === undefined && shows.texts && !form.takesBudget ? { display: 'summarized' } : {}
}

function budgeted(
  { maxOutputTokens: limit, own }: ChatRequest,
  reasoning: Reasoning,
  { thinking: none, effort }: Pick<Thinking, 'thinking' | 'effort'>,
): Thinking {
  const { budget, display, field } = reasoning
  const wanted = budget ?? budgetOf(effortOf(reasoning) ?? 'medium')
  // What the caller has allowed for several answers.
  const interleaves = budget !== undefined && own?.betas.some(isInterleaving) === true
  const tokens =
    limit === undefined || interleaves
      ? wanted
      : Math.min(wanted, limit - (budget === undefined ? ANSWER_TOKENS_MIN : 1))
  if (tokens < BUDGET_TOKENS_MIN) return { thinking: none, effort, isOn: false, ignored: [field] }
  return {
    thinking: { type: 'enabled', budget_tokens: tokens, ...(display !== undefined && { display }) },
    effort,
    maxTokens: limit === undefined ? OUTPUT_TOKENS_DEFAULT + tokens : undefined,
    isOn: true,
  }
}

/**
 * A model that thinks cannot be made to call a tool, and cannot go on with a text that others have begun. It goes on
 * with an answer of its own in which its provider's tools have run (`pause_turn`).
 */
function takesThinking({ toolChoice }: ChatRequest, turns: Turns): boolean {
  const isForced = toolChoice?.mode === 'required' || toolChoice?.mode === 'tool'
  const isForcedAmong = toolChoice?.mode === 'allowed' && toolChoice.required
  const last = turns.count - 1
  return !isForced && !isForcedAmong && (!turns.isAnswer(last) || hasRunTools(turns, last))
}

function hasRunTools(turns: Turns, turn: number): boolean {
  for (let place = turns.firstBlock(turn); place < turns.firstBlock(turn + 1); place++)
    if (turns.kindOf(turns.blockAt(place)) === Kind.OWN_BLOCK) return true
  return false
}

/** Whether the last turn of the model, which it goes on with, does not begin with a thought. */
function lacksThoughts(turns: Turns, thoughts: EntryThoughts | undefined): boolean {
  const last = turns.count - 1
  const isAnswer = turns.isAnswer(last)
  if (last < 1 || (!isAnswer && !turns.isAnswered(last))) return false
  return (thoughts?.before(turns.blockAt(turns.firstBlock(isAnswer ? last : last - 1))).length ?? 0) === 0
}

const rejectsEnabled = rejecting('thinking\\.type[^]{0,40}\\benabled|thinking\\.enabled|budget_tokens')
const rejectsAdaptive = rejecting('adaptive|thinking[^]{0,60}\\badaptive')
const rejectsDisabled = rejecting('thinking\\.type[^]{0,40}\\bdisabled')
const rejectsEffort = rejecting('(?:support\\s+(?:the\\s+)?)?(?:output_config(?:\\.effort)?|effort)')
const rejectsAll = rejecting('(?:support\\s+(?:extended\\s+)?)?thinking(?:\\.type)?')

const ADAPTIVE_ONLY = makeLesson<ThinkingForm>(
  'thinking.enabled',
  { takesBudget: false, takesAdaptive: true, claudeEfforts: ['low', 'medium', 'high', 'xhigh', 'max'] },
  /budget_tokens/gi,
  1,
)
const BUDGET_ONLY = makeLesson<ThinkingForm>(
  'thinking.adaptive',
  { takesBudget: true, takesAdaptive: false },
  /"adaptive"/gi,
  1,
)
const NO_OFF = makeLesson<ThinkingForm>('thinking.disabled', { rejectsOff: true }, /"disabled"/gi, 1)
const NO_EFFORT = makeLesson<ThinkingForm>('output_config.effort', { rejectsEffort: true }, /"effort"/gi, 1)
const NO_THINKING = makeLesson<ThinkingForm>('thinking.type', { rejectsThinking: true }, /"thinking"/gi, 1)

export const THINKING_LESSONS: readonly Lesson<ThinkingForm>[] = [
  ...[ADAPTIVE_ONLY, BUDGET_ONLY, NO_OFF, NO_EFFORT, NO_THINKING],
  ...EFFORT_LESSONS,
  ...SAMPLING_LESSONS,
]

/** What a rejection shows about how a model thinks. `sent`: its fields in the request. */
export function thinkingLesson(error: ProviderError, sent: Thinking): Lesson<ThinkingForm> | undefined {
  const { thinking, effort } = sent
  // Which block begins a turn is a matter of one conversation.
  if (error.kind !== 'rejected' || /^messages[.[]/.test(error.message)) return undefined
  if (thinking?.type === 'enabled' && rejectsEnabled(error))
    return /adaptive/.test(error.message) ? ADAPTIVE_ONLY : undefined
  if (thinking?.type === 'adaptive' && rejectsAdaptive(error)) return BUDGET_ONLY
  if (thinking?.type === 'disabled' && rejectsDisabled(error)) return NO_OFF
  if (effort !== undefined && rejectsEffort(error)) {
    const word = effortLessonOf(effort)
    return word !== undefined && /level|should be|one of|values?/i.test(error.message) ? word : NO_EFFORT
  }
  return thinking !== undefined && /not (?:be )?support/i.test(error.message) && rejectsAll(error)
    ? NO_THINKING
    : undefined
}

function effortLessonOf(effort: string): Lesson<EffortGaps> | undefined {
  return EFFORT_LESSONS.find(({ field }) => field === `effort ${effort}`)
}

/** "The `content[].thinking` in the thinking mode must be passed back to the API." */
export const missesThinking = rejecting('thinking\\b[^]*\\bmust be passed back')

/**
 * For servers of the Messages API that want back the thinking of each earlier turn with calls, as DeepSeek's does.
 * Outside native mode callers have none to send, because they are shown none; an empty block is accepted. Anthropic
 * itself rejects it, so only a server that has missed it gets it.
 */
export const THINKING = makeLesson<{ readonly wantsThinking: boolean }>(
  'thinking',
  { wantsThinking: true },
  /be passed back/gi,
  0,
)

/** The settings that a model takes while it thinks. */
export function keptSampling(
  { sampling: { temperature, topP } }: ChatRequest,
  thinks: boolean,
  ignored: string[],
): Pick<ChatRequest['sampling'], 'temperature' | 'topP'> {
  if (!thinks) return { temperature, topP }
  if (temperature !== undefined && temperature !== 1) ignored.push('temperature')
  const keepsTopP = topP === undefined || topP >= TOP_P_MIN
  if (!keepsTopP) ignored.push('top_p')
  return { topP: keepsTopP ? topP : undefined }
}

const TOP_P_MIN = 0.95
