/** What the models of each maker take in addition to Converse's own fields: how much they are to think. */

import type { ChatRequest } from '../../core/chat-request.ts'
import type { JsonObject } from '../../core/json.ts'
import type { ProviderError } from '../../core/provider-error.ts'
import { type EffortWord, effortOf, lowered } from '../../core/reasoning.ts'
import { innerError } from '../bedrock-error.ts'
import { THINKING_LESSONS, type ThinkingForm, thinkingLesson, thinkingOf } from '../claude-thinking.ts'
import { claudeThinking, effortLesson, takenBy } from '../efforts.ts'
import { type Lesson, makeLesson, rejecting, TargetForms } from '../learned-form.ts'
import { samplingLesson } from '../rejected-sampling.ts'
import { Turns } from '../turns.ts'

export interface ModelFields {
  readonly fields?: JsonObject | undefined
  /** The model thinks, so that some settings are rejected. */
  readonly isOn: boolean
  /** The caller's fields that have no effect. */
  readonly ignored?: readonly string[] | undefined
}

const CLAUDE = /anthropic|claude/
const OTHER_EFFORTS = ['low', 'medium', 'high'] as const

/** Claude's own rules apply to Converse too. */
export function isClaudeModel(model: string): boolean {
  return CLAUDE.test(model)
}

const NO_EFFORT = makeLesson<ThinkingForm>(
  'reasoning_effort',
  { rejectsEffort: true },
  /reasoning_?(?:config|effort)/gi,
  2,
)

/** How each model thinks. */
export const thinkingForms = new TargetForms<ThinkingForm>(
  ({ model }) => claudeThinking(model),
  [...THINKING_LESSONS, NO_EFFORT],
)

/** `turns`: the conversation as it is sent. */
export function modelFields(request: ChatRequest, model: string, form: ThinkingForm, turns: Turns): ModelFields {
  const { reasoning } = request
  if (reasoning === undefined) return { isOn: false }
  if (isClaudeModel(model)) {
    const { thinking, effort, isOn, ignored } = thinkingOf(request, form, turns, request.thoughts)
    const fields = { thinking, output_config: effort === undefined ? undefined : { effort } }
    return { fields: thinking === undefined && effort === undefined ? undefined : fields, isOn, ignored }
  }
  const effort = effortOf(reasoning)
  if (effort === undefined) return { isOn: false }
  const word = otherEffort(effort, form)
  if (word !== undefined && /nova-2/.test(model)) {
    const config = effort === 'none' ? { type: 'disabled' } : { type: 'enabled', maxReasoningEffort: word }
    return { fields: { reasoningConfig: config }, isOn: false }
  }
  if (word !== undefined && /gpt-oss/.test(model)) return { fields: { reasoning_effort: word }, isOn: false }
  return { isOn: false, ignored: [reasoning.field] }
}

function otherEffort(effort: EffortWord, form: ThinkingForm): EffortWord | undefined {
  return form.rejectsEffort === true ? undefined : lowered(effort, takenBy(form, OTHER_EFFORTS))
}

const rejectsField = rejecting(
  '(?:additional_?model_?request_?fields\\W+)?(?:reasoning_?config\\W+)?(?:max_?)?reasoning(?:_?(?:effort|config))?',
)

/** What a rejection shows about how a model thinks. */
export function thinkingLessonOf(
  quoted: ProviderError,
  request: ChatRequest,
  model: string,
  form: ThinkingForm,
): Lesson<ThinkingForm> | undefined {
  const { reasoning } = request
  if (quoted.kind !== 'rejected') return undefined
  const error = innerError(quoted)
  const sampling = samplingLesson(error, request)
  if (sampling !== undefined || reasoning === undefined) return sampling
  if (isClaudeModel(model))
    return thinkingLesson(error, thinkingOf(request, form, new Turns(request.conversation), request.thoughts))
  const effort = effortOf(reasoning)
  const word = effort === undefined || effort === 'none' ? undefined : otherEffort(effort, form)
  if (!rejectsField(error)) return undefined
  return word !== undefined && /\bvalues?\b|one of|must be|should be|enum/i.test(error.message)
    ? effortLesson(word)
    : NO_EFFORT
}
