/**
 * How much a model is to think, in one form for all callers and providers, and what the caller sees of it. Only
 * requests of callers whose thoughts pass (`compatibility.reasoning`) have it.
 */

/** From nothing to the most that a model thinks. */
export const EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const
export type EffortWord = (typeof EFFORTS)[number]
export type Summary = 'auto' | 'concise' | 'detailed'

export interface Reasoning {
  /** Absent: as much as the model does by default. */
  readonly effort?: EffortWord | undefined
  /** The most tokens to think. */
  readonly budget?: number | undefined
  /** What a caller of Messages states apart from the effort. */
  readonly thinking?: 'enabled' | 'adaptive' | 'disabled' | undefined
  readonly display?: 'summarized' | 'omitted' | undefined
  /** What a caller of Responses wants to read of the thoughts. */
  readonly summary?: Summary | undefined
  /** Whether the caller gets the words of the thoughts, what only their issuer can read, both or neither. */
  readonly shows: Shows
  /** The caller's field, for the log line of a request that is sent without. */
  readonly field: string
}

/** Between the parts of a summary, for callers who get it as one text. */
export const PART_SEAM = '\n\n'

interface Shows {
  readonly texts: boolean
  readonly seals: boolean
}

/** About as many tokens as models think by each word. */
const BUDGETS: Readonly<Record<EffortWord, number>> = {
  none: 0,
  minimal: 1024,
  low: 2048,
  medium: 8192,
  high: 16_384,
  xhigh: 24_576,
  max: 32_768,
}

/** Left for the answer, of an output limit that the caller has set without a budget. */
export const ANSWER_TOKENS_MIN = 1024

export function budgetOf(effort: EffortWord): number {
  return BUDGETS[effort]
}

/** The word for a number of tokens: the most that it allows. */
export function wordOf(budget: number): EffortWord {
  return EFFORTS.findLast((word) => BUDGETS[word] <= budget) ?? 'none'
}

/** The effort as a word; undefined for the model's default. */
export function effortOf({ effort, budget, thinking }: Reasoning): EffortWord | undefined {
  if (thinking === 'disabled') return 'none'
  return effort ?? (budget === undefined ? undefined : wordOf(budget))
}

/** Whether the caller wants the model to think: undefined if it leaves that to the model. */
export function wantsThoughts(reasoning: Reasoning): boolean | undefined {
  const { thinking } = reasoning
  if (thinking !== undefined) return thinking !== 'disabled'
  const effort = effortOf(reasoning)
  return effort === undefined ? undefined : effort !== 'none'
}

/** The most of these words that is no more than the wanted one, or else the least of them. */
export function lowered(wanted: EffortWord, taken: readonly EffortWord[]): EffortWord | undefined {
  const most = EFFORTS.indexOf(wanted)
  const known = EFFORTS.filter((word) => taken.includes(word))
  return known.findLast((word) => EFFORTS.indexOf(word) <= most) ?? known[0]
}
