/** How much a model of Gemini is to think, in the words of its API. */

import type { ChatRequest } from '../../core/chat-request.ts'
import type { JsonObject } from '../../core/json.ts'
import type { ProviderError } from '../../core/provider-error.ts'
import { ANSWER_TOKENS_MIN, budgetOf, effortOf, lowered, type Reasoning, wantsThoughts } from '../../core/reasoning.ts'
import { EFFORT_LESSONS, type EffortGaps, effortLesson, type GeminiThinking, takenBy } from '../efforts.ts'
import { type Lesson, makeLesson, rejecting } from '../learned-form.ts'

export interface ThinkingForm extends GeminiThinking, EffortGaps {
  /** It has rejected levels, or numbers of tokens. */
  readonly rejectsLevels?: boolean | undefined
  readonly rejectsBudgets?: boolean | undefined
  /** It does not think. */
  readonly rejectsThinking?: boolean | undefined
}

/** Undefined if the caller leaves it to the model, or the model does not think. */
export function thinkingConfig(request: ChatRequest, form: ThinkingForm): JsonObject | undefined {
  const { reasoning, maxOutputTokens } = request
  if (reasoning === undefined || !thinks(form)) return undefined
  const isShown = reasoning.shows.texts && (wantsThoughts(reasoning) === true || reasoning.summary !== undefined)
  const amount = amountOf(reasoning, form, maxOutputTokens)
  if (!isShown && amount === undefined) return undefined
  // Thoughts of a model that does not think are rejected.
  return { ...amount, includeThoughts: isShown && amount?.['thinkingBudget'] !== 0 ? true : undefined }
}

/** The field of the caller if the model does not think in spite of it, because it cannot or has no room. */
export function ignoredThinking(request: ChatRequest, form: ThinkingForm): readonly string[] | undefined {
  const { reasoning } = request
  if (reasoning === undefined || wantsThoughts(reasoning) !== true) return undefined
  return thinks(form) && thinkingConfig(request, form)?.['thinkingBudget'] !== 0 ? undefined : [reasoning.field]
}

function thinks({ levels, budgets, rejectsThinking }: ThinkingForm): boolean {
  return rejectsThinking !== true && (levels.length > 0 || budgets !== undefined)
}

/** What models that have rejected levels take. */
const USUAL_BUDGETS = { least: 512, most: 24_576, hasOff: true } as const

function amountOf(reasoning: Reasoning, form: ThinkingForm, limit = Infinity): JsonObject | undefined {
  const effort = effortOf(reasoning)
  if (effort === undefined) return undefined
  const { levels, rejectsLevels, rejectsBudgets } = form
  if (levels.length > 0 && rejectsLevels !== true) return { thinkingLevel: lowered(effort, takenBy(form, levels)) }
  if (rejectsBudgets === true) return undefined
  const { least, most, hasOff } = form.budgets ?? USUAL_BUDGETS
  const tokens = effort === 'none' ? 0 : (reasoning.budget ?? Math.min(budgetOf(effort), limit - ANSWER_TOKENS_MIN))
  return { thinkingBudget: tokens <= 0 && hasOff ? 0 : Math.min(most, Math.max(least, tokens)) }
}

const rejectsLevel = rejecting('(?:generation_?config\\.)?(?:thinking_?config\\.)?thinking[ _]?level')
const rejectsBudget = rejecting('(?:generation_?config\\.)?(?:thinking_?config\\.)?thinking[ _]?budget')
const rejectsAll = rejecting('thinking(?:[ _]?config)?')

const NO_LEVELS = makeLesson<ThinkingForm>('thinkingLevel', { rejectsLevels: true }, /thinkingLevel/gi, 1)
const NO_BUDGETS = makeLesson<ThinkingForm>('thinkingBudget', { rejectsBudgets: true }, /thinkingBudget/gi, 1)
const NO_THINKING = makeLesson<ThinkingForm>('thinkingConfig', { rejectsThinking: true }, /thinkingConfig/gi, 1)
/** Of a level. */
const LEVELS = EFFORT_LESSONS.map((lesson) => ({ ...lesson, words: /thinkingLevel/gi }))

/** "The thinking budget 24577 is invalid. Please choose a value between 128 and 24576." */
const RANGE = /\bbetween\s+(\d{1,7})\s+and\s+(\d{1,7})|[[(](\d{1,7})\s*,\s*(\d{1,7})[\])]/
const BUDGETS = 'thinkingBudget '

/** What a model takes, by the field of the store: `thinkingBudget 128-32768`, or `… or 0`. */
export function budgetLesson(field: string): Lesson<ThinkingForm> | undefined {
  const [, least, most, off] = /^thinkingBudget (\d{1,7})-(\d{1,7})( or 0)?$/.exec(field) ?? []
  if (least === undefined || most === undefined) return undefined
  const budgets = { least: Number(least), most: Number(most), hasOff: off !== undefined }
  return { ...NO_BUDGETS, field, change: { budgets } }
}

/** The range that an error names, unless the rejected number is within it. 0 is off unless it was rejected. */
function rangeLesson(error: ProviderError, sent: unknown, form: ThinkingForm): Lesson<ThinkingForm> | undefined {
  const [, first, second, third, fourth] = RANGE.exec(error.message) ?? []
  const [least, most] = [Number(first ?? third), Number(second ?? fourth)]
  if (!(least <= most) || (Number(sent) >= least && Number(sent) <= most)) return undefined
  const hasOff = least === 0 || (sent !== 0 && form.budgets?.hasOff === true)
  return budgetLesson(`${BUDGETS}${Math.max(1, least)}-${most}${hasOff ? ' or 0' : ''}`)
}

export const THINKING_LESSONS: readonly Lesson<ThinkingForm>[] = [NO_LEVELS, NO_BUDGETS, NO_THINKING, ...LEVELS]

/** What a rejection shows about how a model thinks. */
export function thinkingLesson(
  error: ProviderError,
  request: ChatRequest,
  form: ThinkingForm,
): Lesson<ThinkingForm> | undefined {
  const sent = thinkingConfig(request, form)
  if (sent === undefined || error.kind !== 'rejected') return undefined
  const level = sent['thinkingLevel']
  if (level !== undefined && rejectsLevel(error)) {
    const word = form.levels.find((one) => one === level)
    const isAboutValue = typeof level === 'string' && error.message.toLowerCase().includes(level)
    return word !== undefined && isAboutValue ? { ...effortLesson(word), words: /thinkingLevel/gi } : NO_LEVELS
  }
  const budget = sent['thinkingBudget']
  if (budget !== undefined && rejectsBudget(error)) return rangeLesson(error, budget, form) ?? NO_BUDGETS
  return rejectsAll(error) && /not (?:enabled|supported)|unknown name/i.test(error.message) ? NO_THINKING : undefined
}
