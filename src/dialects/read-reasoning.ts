/** How much a model is to think, from the fields of each dialect. */

import { isObject, type JsonObject, type JsonValue, numberOf } from '../core/json.ts'
import { EFFORTS, type Reasoning, type Summary } from '../core/reasoning.ts'
import { invalid, missing } from './invalid-field.ts'

/** Anthropic takes no smaller budget. */
const BUDGET_TOKENS_MIN = 1024
const SUMMARIES: readonly Summary[] = ['auto', 'concise', 'detailed']
const THINKING_TYPES = ['enabled', 'adaptive', 'disabled'] as const
const DISPLAYS = ['summarized', 'omitted'] as const

/** `reasoning_effort` of Chat Completions, whose callers see all thoughts that come. */
export function chatReasoning({ reasoning_effort: effort }: JsonObject): Reasoning {
  const field = 'reasoning_effort'
  return { effort: word(effort, EFFORTS, field), shows: { texts: true, seals: false }, field }
}

/** `reasoning` and `include` of Responses. */
export function responsesReasoning({ reasoning = null, include }: JsonObject): Reasoning {
  const field = 'reasoning'
  const seals = Array.isArray(include) && include.includes('reasoning.encrypted_content')
  if (reasoning === null) return { shows: { texts: false, seals }, field }
  if (!isObject(reasoning)) throw invalid(field, 'must be an object')
  const summary = word(reasoning['summary'], SUMMARIES, 'reasoning.summary')
  const older = word(reasoning['generate_summary'], SUMMARIES, 'reasoning.generate_summary')
  const effort = word(reasoning['effort'], EFFORTS, 'reasoning.effort')
  return { effort, summary: summary ?? older, shows: { texts: (summary ?? older) !== undefined, seals }, field }
}

/**
 * `thinking` and `output_config.effort` of Messages. `interleaves`: the model may think between its calls, and then a
 * budget may be larger than the limit of one answer.
 */
export function messagesReasoning(body: JsonObject, interleaves: boolean): Reasoning {
  const { thinking = null } = body
  const effort = word(outputConfig(body)?.['effort'], EFFORTS, 'output_config.effort')
  if (thinking === null)
    return { effort, shows: { texts: false, seals: false }, field: effort === undefined ? 'thinking' : 'output_config' }
  const field = 'thinking'
  if (!isObject(thinking)) throw invalid(field, 'must be an object')
  if ((thinking['type'] ?? null) === null) throw missing('thinking.type')
  const type = word(thinking['type'], THINKING_TYPES, 'thinking.type')
  const display = word(thinking['display'], DISPLAYS, 'thinking.display')
  const isOn = type !== 'disabled'
  return {
    ...{ effort, thinking: type, display, field },
    budget:
      type === 'enabled'
        ? budgetOf(thinking['budget_tokens'], interleaves ? undefined : body['max_tokens'])
        : undefined,
    shows: { texts: isOn && display !== 'omitted', seals: isOn },
  }
}

/** `output_config` of Messages. */
export function outputConfig({ output_config: config = null }: JsonObject): JsonObject | undefined {
  if (config === null) return undefined
  if (!isObject(config)) throw invalid('output_config', 'must be an object')
  return config
}

function budgetOf(budget: JsonValue | undefined, limit: JsonValue | undefined): number {
  const path = 'thinking.budget_tokens'
  if (budget === undefined || budget === null) throw missing(path)
  const tokens = numberOf(budget)
  if (tokens === undefined || !Number.isInteger(tokens) || tokens < BUDGET_TOKENS_MIN)
    throw invalid(path, `must be a whole number of at least ${BUDGET_TOKENS_MIN}`)
  const most = numberOf(limit)
  if (most !== undefined && tokens >= most) throw invalid(path, 'must be less than max_tokens')
  return tokens
}

function word<T extends string>(value: JsonValue | undefined, words: readonly T[], path: string): T | undefined {
  if (value === undefined || value === null) return undefined
  const known = words.find((one) => one === value)
  if (known === undefined) throw invalid(path, `must be one of ${words.map((one) => `'${one}'`).join(', ')}`)
  return known
}

const OF_REASONING = ['reasoning', 'thinking', 'output_config', 'include']

/** The settings of a body without those of reasoning, which are not ignored then. */
export function withoutReasoning(settings: JsonObject): JsonObject {
  if (OF_REASONING.every((name) => settings[name] === undefined)) return settings
  const { reasoning: _, thinking: __, output_config: config, include, ...others } = settings
  const { effort: ___, ...rest } = isObject(config) ? config : {}
  const more = Array.isArray(include) ? include.filter((one) => one !== 'reasoning.encrypted_content') : include
  return {
    ...others,
    ...(config !== undefined && { output_config: rest }),
    ...(more !== undefined && { include: more }),
  }
}
