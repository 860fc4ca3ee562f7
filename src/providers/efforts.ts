/**
 * Which words and numbers each provider's API and model family takes for how much a model thinks, by the documentation
 * of each, as of November 2026. What a target rejects all the same is learned from its answer (`learned-form.ts`).
 */

import { EFFORTS, type EffortWord } from '../core/reasoning.ts'
import type { Lesson } from './learned-form.ts'
import { NO_CLAUDE_SAMPLING, type SamplingForm } from './rejected-sampling.ts'

const words = (text: string): readonly EffortWord[] => EFFORTS.filter((word) => text.split(' ').includes(word))

const NOTHING: readonly EffortWord[] = []
const THREE = words('low medium high')
const FOUR = words('minimal low medium high')

/** Models that do so whatever they are asked. */
export const ALWAYS_REASONS = /^gpt-(?:6-astra|6\.1-sol)(?:-|$)/
/** A fine-tuned model has its owner's words after the name of its base. */
export const FINE_TUNED = /^ft:([^:]*).*$/

/** By the name of a model of OpenAI's, without its owner; the first that fits. */
const OPENAI: readonly (readonly [RegExp, readonly EffortWord[]])[] = [
  [/^(?:gpt-[34](?!\d)|chatgpt|o1-(?:mini|preview)|gpt-[\d.]+-chat)/, NOTHING],
  [/^o\d+-deep-research/, words('medium')],
  [/^(?:o\d|gpt-oss)/, THREE],
  [/^gpt-5-pro/, words('high')],
  [/^gpt-5(?:\.1)?-codex(?!-max)|^codex-mini/, THREE],
  [/^gpt-[\d.]+-pro/, words('medium high xhigh')],
  [/^gpt-5(?!\.)/, FOUR],
  [/^gpt-5\.\d+-codex/, words('low medium high xhigh')],
  [/^gpt-5\.1(?!\d)/, words('none low medium high')],
  [/^gpt-5\.[2-5](?!\d)/, words('none low medium high xhigh')],
  [ALWAYS_REASONS, words('low medium high xhigh max')],
  [/^gpt-/, words('none low medium high xhigh max')],
]

/** What a model takes by OpenAI's APIs: all words, if its name does not show it. */
export function openaiEfforts(name: string): readonly EffortWord[] {
  const model = name.replace(FINE_TUNED, '$1').replace(/^.*\//, '')
  return OPENAI.find(([pattern]) => pattern.test(model))?.[1] ?? EFFORTS
}

/** How a server with OpenAI's Chat Completions takes the effort, by its address. */
export type ChatEffortForm = 'reasoning_effort' | 'reasoning' | 'thinking' | 'thinking and effort'

export function chatEffortForm(url: string): ChatEffortForm {
  const host = /^https?:\/\/([^/:]+)/.exec(url)?.[1] ?? ''
  if (/(?:^|\.)openrouter\.ai$/.test(host)) return 'reasoning'
  if (/(?:^|\.)deepseek\.com$/.test(host)) return 'thinking and effort'
  return /(?:^|\.)(?:moonshot\.(?:ai|cn)|kimi\.com|z\.ai|bigmodel\.cn|volces\.com)$/.test(host)
    ? 'thinking'
    : 'reasoning_effort'
}

/** DeepSeek's; what is less is raised. */
export const DEEPSEEK_EFFORTS: readonly EffortWord[] = words('high max')

/** How a model of Claude thinks: by a number of tokens, as much as it finds right, or either. */
export interface ClaudeThinking extends SamplingForm {
  readonly takesBudget: boolean
  readonly takesAdaptive: boolean
  /** Which of the two is sent for a word. */
  readonly prefersAdaptive: boolean
  /** What `output_config.effort` takes. */
  readonly claudeEfforts: readonly EffortWord[]
}

const CLAUDE = /claude-(?:([a-z]+)-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)/
const BUDGETS: ClaudeThinking = {
  takesBudget: true,
  takesAdaptive: false,
  prefersAdaptive: false,
  claudeEfforts: NOTHING,
}
const EFFORTS_OF_ADAPTIVE = words('low medium high xhigh max')
/** Claude 4.7 and later reject numbers of tokens. */
const ADAPTIVE: ClaudeThinking = {
  ...NO_CLAUDE_SAMPLING,
  takesBudget: false,
  takesAdaptive: true,
  prefersAdaptive: true,
  claudeEfforts: EFFORTS_OF_ADAPTIVE,
}
const EITHER: ClaudeThinking = {
  ...{ takesBudget: true, takesAdaptive: true, prefersAdaptive: true },
  claudeEfforts: words('low medium high max'),
}
/** Models by other names, which servers with the same API have. What a caller of Messages asks for is sent as it is. */
const UNKNOWN: ClaudeThinking = { ...BUDGETS, takesAdaptive: true, claudeEfforts: EFFORTS_OF_ADAPTIVE }

export function claudeThinking(model: string): ClaudeThinking {
  const [, family, major, minor = '0'] = CLAUDE.exec(model) ?? []
  if (/claude-(?:instant|v\d)/.test(model)) return { ...BUDGETS, takesBudget: false }
  if (major === undefined) return model.includes('claude') ? ADAPTIVE : UNKNOWN
  const version = 100 * Number(major) + Number(minor)
  if (version < 307) return { ...BUDGETS, takesBudget: false }
  if (version < 406) return family === 'opus' && version === 405 ? { ...BUDGETS, claudeEfforts: THREE } : BUDGETS
  return version > 406 ? ADAPTIVE : EITHER
}

/** Those before Claude 3.7 never think. Other servers' models may. */
export function claudeThinks(model: string): boolean {
  const { takesBudget, takesAdaptive } = claudeThinking(model)
  return takesBudget || takesAdaptive
}

/** How a model of Gemini thinks: by a level, within a range of tokens (0 turns it off), or not at all. */
export interface GeminiThinking {
  readonly levels: readonly EffortWord[]
  readonly budgets?: { readonly least: number; readonly most: number; readonly hasOff: boolean } | undefined
}

export function geminiThinking(model: string): GeminiThinking {
  if (/gemini-(?:1|2\.0)/.test(model)) return { levels: NOTHING }
  const version = /gemini-(\d+)(?:\.(\d+))?/.exec(model)
  if (Number(version?.[1] ?? 0) >= 3) {
    if (model.includes('flash')) return { levels: FOUR }
    return { levels: /gemini-3-pro/.test(model) ? words('low high') : THREE }
  }
  if (model.includes('flash-lite')) return { levels: NOTHING, budgets: { least: 512, most: 24_576, hasOff: true } }
  if (model.includes('pro')) return { levels: NOTHING, budgets: { least: 128, most: 32_768, hasOff: false } }
  return { levels: NOTHING, budgets: { least: 1, most: 24_576, hasOff: true } }
}

/** Words that a target has rejected. */
export type EffortGaps = { readonly [Word in EffortWord as `lacks_${Word}`]?: boolean | undefined }

/** Those of the words that a target has not rejected. */
export function takenBy(form: EffortGaps, efforts: readonly EffortWord[]): readonly EffortWord[] {
  return efforts.some((word) => form[`lacks_${word}`]) ? efforts.filter((word) => !form[`lacks_${word}`]) : efforts
}

const GAPS: Readonly<Record<EffortWord, EffortGaps>> = {
  none: { lacks_none: true },
  minimal: { lacks_minimal: true },
  low: { lacks_low: true },
  medium: { lacks_medium: true },
  high: { lacks_high: true },
  xhigh: { lacks_xhigh: true },
  max: { lacks_max: true },
}

/** What is learned if a target rejects a word. */
export function effortLesson(word: EffortWord): Lesson<EffortGaps> {
  return { field: `effort ${word}`, change: GAPS[word], words: /effort/gi, own: 1 }
}

export const EFFORT_LESSONS: readonly Lesson<EffortGaps>[] = EFFORTS.map(effortLesson)
