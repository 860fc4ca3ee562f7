/**
 * Which models need the Responses API, and for what: a table of OpenAI's families, and rejections that name it as the
 * remedy.
 */

import type { ChatRequest } from '../../core/chat-request.ts'
import type { ChatApi } from '../../core/endpoint.ts'
import * as Kind from '../../core/entry-kinds.ts'
import type { ProviderError } from '../../core/provider-error.ts'
import { ALWAYS_REASONS, FINE_TUNED } from '../efforts.ts'
import type { Target } from '../provider.ts'
import { type EffortForm, sentEffort } from './effort.ts'

/**
 * Which requests a model takes by the Responses API alone. `tools with effort`: those with tools and an explicit
 * effort of reasoning; `tools with thoughts`: those with tools, unless the effort is none; `tools`: all with tools.
 */
type ResponsesNeed = 'none' | 'tools with effort' | 'tools with thoughts' | 'tools' | 'all'

/** What every request to a target by the Responses API has in common. */
export interface ResponsesForm {
  readonly url: string
  /** The JSON of a request up to its items. */
  readonly opening: string
  /** The system's texts have the role of the developer. */
  readonly hasDeveloper: boolean
}

/** "This model is only supported in v1/responses and not in v1/chat/completions." */
const RESPONSES_ALONE = /(?:^|[-:/])(?:pro|codex)(?:[-:]|$)|-deep-research|^computer-use/
/** GPT-5.4 and later, as 504. "Function tools with reasoning_effort are not supported for MODEL". */
const NEEDS_FOR_EFFORT = 504
/** GPT-5.6 and later reason unless the effort is `none`. */
const NEEDS_FOR_TOOLS = 506
const VERSION = /^gpt-(\d{1,2})(?:\.(\d{1,2}))?(?=-|$)/

/** By which API a target is asked. */
export interface ApiNeeds {
  readonly isOpenai: boolean
  /** OpenAI's own, or Azure's: both have the Responses API with its tools. */
  readonly hasOwnTools: boolean
  /** As the configuration has it. */
  readonly api: ChatApi
  /** By the name of the model. */
  readonly need: ResponsesNeed
  /** With `auto`, what the target has taught: requests with tools need Responses, or all do. */
  readonly takesToolsByResponses: boolean
  readonly takesResponsesAlone: boolean
}

export function apiNeeds(
  { model, endpoint, api = endpoint.api ?? 'auto' }: Target,
  isOpenai: boolean,
  hasOwnTools: boolean,
): ApiNeeds {
  const need = isOpenai ? needOf(model) : 'none'
  return { isOpenai, hasOwnTools, api, need, takesToolsByResponses: false, takesResponsesAlone: false }
}

function needOf(name: string): ResponsesNeed {
  const model = name.replace(FINE_TUNED, '$1')
  if (RESPONSES_ALONE.test(model)) return 'all'
  if (ALWAYS_REASONS.test(model)) return 'tools'
  const [, major = 0, minor = 0] = VERSION.exec(model) ?? []
  const version = 100 * Number(major) + Number(minor)
  if (version >= NEEDS_FOR_TOOLS) return 'tools with thoughts'
  return version >= NEEDS_FOR_EFFORT ? 'tools with effort' : 'none'
}

export function needsResponses(request: ChatRequest, form: ApiNeeds & EffortForm): boolean {
  const { tools } = request
  const { api, need } = form
  if (api !== 'auto') return api === 'responses'
  if (need === 'all' || form.takesResponsesAlone) return true
  if (form.hasOwnTools && request.own?.form === 'responses') return true
  // Chat Completions takes no documents by address.
  if (form.isOpenai && request.conversation.has(Kind.DOCUMENT_URL)) return true
  if (tools.isEmpty) return false
  const effort = sentEffort(request, form)
  switch (need) {
    case 'tools with effort':
      return form.takesToolsByResponses || (effort !== undefined && effort !== 'none')
    case 'tools with thoughts':
      return form.takesToolsByResponses || effort !== 'none'
    default:
      return form.takesToolsByResponses || need === 'tools'
  }
}

/** "the Responses API (`/v1/responses`" */
const ITS_PATH =
  '\\s+(?:(?:the|our|its|new|openai|responses|api|endpoint|path|post):?\\s+)*[`\'"(]*' +
  '(?:post\\s+)?(?:https://(?:[\\w-]+\\.)*(?:openai|azure)\\.com)?(?:/openai)?/?v1/responses\\b'
const PLACED = 'via|with|through|in|on|by|at|for'
/** "…, use /v1/responses", "only supported in v1/responses". */
const REMEDY = new RegExp(`\\b(?:use|using|call|try|requires?|needs?|to|${PLACED})${ITS_PATH}`, 'i')
/** "not supported in v1/responses", "cannot be used with /v1/responses". */
const NO_REMEDY = new RegExp(
  `(?:\\bnot|\\bcannot|n't|\\bunsupported)(?:\\s+(?!but\\b|only\\b)\\w+){0,3}\\s+(?:${PLACED})${ITS_PATH}`,
  'i',
)
/** The error is about what the caller has written, or a server has fetched for it: its words may be anybody's. */
const OF_CONTENT = /messages|content|image|file|url|audio|schema|download/i
/** The remedy is in the first sentences, and nothing that a server has fetched comes before it. */
const OPENING_CHARS_MAX = 500

/**
 * Which requests a rejection by Chat Completions sends to the Responses API; undefined if it names no such remedy. For
 * a model that is on Responses alone the status is 400 or 404.
 */
export function wantsResponses(error: ProviderError, { tools }: ChatRequest): 'tools' | 'all' | undefined {
  const opening = error.message.slice(0, OPENING_CHARS_MAX)
  const { status, param = '', providerCode = '' } = error.detail
  if (error.kind !== 'rejected' && status !== 404) return undefined
  if (OF_CONTENT.test(param) || OF_CONTENT.test(providerCode)) return undefined
  const at = opening.search(REMEDY)
  if (at === -1 || opening.slice(0, at).includes('://') || NO_REMEDY.test(opening)) return undefined
  if (!/\btools?\b/i.test(opening)) return 'all'
  return tools.isEmpty ? undefined : 'tools'
}

/** Models that are known to think; Azure's deployments and models of other servers have any name. */
const THINKS = /^(?:ft:)?(?:.*\/)?(?:o\d|gpt-[5-9]|gpt-\d\d|codex|computer-use)/
/** Models that are known not to. */
const THINKS_NOT = /^(?:ft:)?(?:.*\/)?(?:gpt-[34](?!\d)|chatgpt-4o)/

export function mayThink(model: string): boolean {
  return !THINKS_NOT.test(model)
}

export function responsesForm(model: string, url: string, isOpenaiOrAzure: boolean): ResponsesForm {
  return {
    url,
    opening: `{"model":${JSON.stringify(model)},"input":`,
    hasDeveloper: isOpenaiOrAzure && THINKS.test(model),
  }
}
