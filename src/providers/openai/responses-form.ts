/**
 * Which of OpenAI's models need the Responses API, and for what: a table of their families. What other servers need
 * shows in their rejections.
 */

import type { ChatRequest } from '../../core/chat-request.ts'
import type { Target } from '../provider.ts'

/**
 * Which requests a model takes by the Responses API alone. `tools with effort`: those with tools and an explicit
 * effort of reasoning; `tools with thoughts`: those with tools, unless the effort is none; `tools`: all with tools.
 */
export type ResponsesNeed = 'none' | 'tools with effort' | 'tools with thoughts' | 'tools' | 'all'

/** What every request to a target by the Responses API has in common. */
export interface ResponsesForm {
  readonly url: string
  /** The JSON of a request up to its items. */
  readonly opening: string
  /** The system's texts have the role of the developer. */
  readonly hasDeveloper: boolean
  /** The encrypted thoughts of the model are asked for. */
  readonly sendsThoughts: boolean
  /** The request may have an option about the padding of its stream. */
  readonly takesPadding: boolean
}

/** "This model is only supported in v1/responses and not in v1/chat/completions." */
const RESPONSES_ALONE = /(?:^|[-:/])(?:pro|codex)(?:[-:]|$)|-deep-research|^computer-use/
/** GPT-5.4 and later, as 504. "Function tools with reasoning_effort are not supported for MODEL". */
const NEEDS_FOR_EFFORT = 504
/** GPT-5.6 and later reason unless the effort is `none`. */
const NEEDS_FOR_TOOLS = 506
/** These always reason. */
const ALWAYS_REASONS = /^gpt-(?:6-astra|6\.1-sol)(?:-|$)/
const VERSION = /^(?:ft:)?gpt-(\d{1,2})(?:\.(\d{1,2}))?(?=-|:|$)/

export function responsesNeed(
  { model, endpoint, api = endpoint.api ?? 'auto' }: Target,
  isOpenai: boolean,
): ResponsesNeed {
  if (api !== 'auto') return api === 'responses' ? 'all' : 'none'
  if (!isOpenai) return 'none'
  if (RESPONSES_ALONE.test(model)) return 'all'
  if (ALWAYS_REASONS.test(model)) return 'tools'
  const [, major = 0, minor = 0] = VERSION.exec(model) ?? []
  const version = 100 * Number(major) + Number(minor)
  return version >= NEEDS_FOR_TOOLS ? 'tools with thoughts' : version >= NEEDS_FOR_EFFORT ? 'tools with effort' : 'none'
}

export function needsResponses({ tools, sampling }: ChatRequest, need: ResponsesNeed): boolean {
  if (need === 'none' || need === 'all') return need === 'all'
  if (tools.isEmpty) return false
  const effort = sampling.reasoningEffort
  switch (need) {
    case 'tools with effort':
      return effort !== undefined && effort !== 'none'
    case 'tools with thoughts':
      return effort !== 'none'
    default:
      return true
  }
}

/** Models that are known to think; Azure's deployments and models of other servers have any name. */
const THINKS = /^(?:ft:)?(?:.*\/)?(?:o\d|gpt-[5-9]|gpt-\d\d|codex|computer-use)/
/** Models that are known not to. */
const THINKS_NOT = /^(?:ft:)?(?:.*\/)?(?:gpt-[34](?!\d)|chatgpt-4o)/

export function responsesForm(model: string, url: string, isOpenaiOrAzure: boolean): ResponsesForm {
  return {
    url,
    opening: `{"model":${JSON.stringify(model)},"input":`,
    hasDeveloper: isOpenaiOrAzure && THINKS.test(model),
    sendsThoughts: !THINKS_NOT.test(model),
    takesPadding: true,
  }
}
