/** How much a model is to think, in the fields of OpenAI's two APIs and of the servers that speak them. */

import type { ChatRequest } from '../../core/chat-request.ts'
import type { ProviderError } from '../../core/provider-error.ts'
import { type EffortWord, effortOf, lowered, wantsThoughts } from '../../core/reasoning.ts'
import {
  type ChatEffortForm,
  chatEffortForm,
  DEEPSEEK_EFFORTS,
  EFFORT_LESSONS,
  type EffortGaps,
  effortLesson,
  openaiEfforts,
  takenBy,
} from '../efforts.ts'
import { jsonMember, member } from '../json-members.ts'
import { type Lesson, makeLesson, rejecting } from '../learned-form.ts'

/** How a target takes the effort. */
export interface EffortForm extends EffortGaps {
  readonly efforts: readonly EffortWord[]
  readonly effortForm: ChatEffortForm
  /** It takes no effort by any word. */
  readonly rejectsEffort?: boolean | undefined
  /** It shows no summaries, such as to an account that is not verified. */
  readonly rejectsSummary?: boolean | undefined
}

export function effortForm(model: string, url: string): EffortForm {
  const form = chatEffortForm(url)
  return { efforts: form === 'thinking and effort' ? DEEPSEEK_EFFORTS : openaiEfforts(model), effortForm: form }
}

/** The word that a target is sent; undefined for none. */
export function sentEffort({ reasoning, sampling }: ChatRequest, form: EffortForm): string | undefined {
  if (reasoning === undefined) return sampling.reasoningEffort
  const wanted = effortOf(reasoning)
  if (wanted === undefined || form.rejectsEffort === true) return undefined
  return lowered(wanted, takenBy(form, form.efforts))
}

/** The members of a body of Chat Completions. */
export function chatEffort(request: ChatRequest, form: EffortForm): string {
  const { reasoning } = request
  const effort = sentEffort(request, form)
  if (reasoning === undefined || form.effortForm === 'reasoning_effort') return member('reasoning_effort', effort)
  if (form.rejectsEffort === true) return ''
  if (form.effortForm === 'reasoning') {
    const tokens = reasoning.thinking === 'enabled' ? reasoning.budget : undefined
    if (tokens !== undefined) return jsonMember('reasoning', { max_tokens: tokens })
    return effort === undefined ? '' : jsonMember('reasoning', { effort })
  }
  const wanted = wantsThoughts(reasoning)
  if (wanted === undefined) return ''
  const thinking = jsonMember('thinking', { type: wanted ? 'enabled' : 'disabled' })
  return form.effortForm === 'thinking' || !wanted ? thinking : thinking + member('reasoning_effort', effort)
}

/** The member of a body of Responses. */
export function responsesEffort(request: ChatRequest, form: EffortForm): string {
  const effort = sentEffort(request, form)
  const summary = form.rejectsSummary === true ? undefined : summaryFor(request)
  const context = request.own?.members['reasoning.context']
  if (effort === undefined && summary === undefined && context === undefined) return ''
  return jsonMember('reasoning', { effort, summary, context })
}

/** Callers of the other dialects read the thoughts of a model that they have asked to think. */
function summaryFor({ reasoning }: ChatRequest): string | undefined {
  if (reasoning === undefined) return undefined
  if (reasoning.summary !== undefined) return reasoning.summary
  return reasoning.shows.texts && wantsThoughts(reasoning) === true ? 'auto' : undefined
}

/** Names the caller's field, if it asks for thoughts or none and the target takes neither. */
export function ignoredEffort({ reasoning }: ChatRequest, form: EffortForm): readonly string[] {
  if (reasoning === undefined || effortOf(reasoning) === undefined) return NOTHING
  return form.rejectsEffort === true || form.efforts.length === 0 ? [reasoning.field] : NOTHING
}

const NOTHING: readonly string[] = []

const NO_EFFORT = makeLesson<EffortForm>(
  'reasoning_effort',
  { rejectsEffort: true },
  /effort|"thinking"|"reasoning"/gi,
  2,
)
const NO_SUMMARY = makeLesson<EffortForm>('reasoning.summary', { rejectsSummary: true }, /"summary"/gi, 1)

export const REASONING_LESSONS: readonly Lesson<EffortForm>[] = [NO_EFFORT, NO_SUMMARY, ...EFFORT_LESSONS]

const FIELD = /^(?:reasoning_effort|reasoning(?:\.effort)?|thinking)(?:$|\.)/
const rejectsSummary = rejecting('reasoning\\.summary|(?:organization\\s+must\\s+be\\s+verified)')
const rejectsField = rejecting('reasoning[_.]?effort|reasoning|thinking|effort')

/** What a rejection shows about how a target takes the effort. */
export function effortLessonOf(
  error: ProviderError,
  request: ChatRequest,
  form: EffortForm,
): Lesson<EffortForm> | undefined {
  if (request.reasoning === undefined || error.kind !== 'rejected') return undefined
  const { param = '', providerCode = '' } = error.detail
  if (param === 'reasoning.summary' || rejectsSummary(error)) return NO_SUMMARY
  if (!FIELD.test(param) && !rejectsField(error)) return undefined
  const effort = takenBy(form, form.efforts).find((word) => word === sentEffort(request, form))
  if (effort === undefined || /unsupported_parameter|unknown_parameter/.test(providerCode)) return NO_EFFORT
  const isAboutValue = /value/.test(providerCode) || /\bvalues?\b|should be|one of|must be/i.test(error.message)
  return isAboutValue ? effortLesson(effort) : NO_EFFORT
}
