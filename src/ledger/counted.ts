/** What a reservation adds to the usage log, settled or lost. */

import type { Settlement } from './ledger.ts'
import type { UsageFigures } from './usage-log.ts'

/** The figures of a settlement; undefined where no provider was called. */
export function usageOf(settlement: Settlement): UsageFigures | undefined {
  if (settlement.model === undefined) return undefined
  return {
    requests: 1,
    estimatedRequests: settlement.estimated ? 1 : 0,
    inputTokens: settlement.amounts.inputTokens,
    cachedInputTokens: settlement.cachedInputTokens,
    outputTokens: settlement.amounts.outputTokens,
    images: settlement.images,
    costMicroUsd: settlement.amounts.costMicroUsd,
  }
}

/** The figures of a reservation that nobody settled: its progress, with the input estimate at least. */
export function usageOfLost(inputTokens: number, outputTokens: number, costMicroUsd: number): UsageFigures {
  return {
    requests: 1,
    estimatedRequests: 1,
    inputTokens,
    cachedInputTokens: 0,
    outputTokens,
    images: 0,
    costMicroUsd,
  }
}
