/** How many tokens a request would take in. Costs nothing, so nothing is held for it. */

import { needsOf } from '../catalog/capability.ts'
import type { Key } from '../catalog/catalog.ts'
import { resolve } from '../catalog/resolve.ts'
import type { ChatRequest } from '../core/request.ts'
import { estimateInput } from '../ledger/estimate.ts'
import type { Gateway } from './gateway.ts'

/** Our estimate, for a model that the key may use. Throws the model errors of decisions.md 2. */
export async function countTokens(gateway: Gateway, key: Key, request: ChatRequest): Promise<number> {
  const tokens = estimateInput(request)
  resolve(gateway.catalog, key, { name: request.model, kind: 'chat', needs: needsOf(request, tokens) }, gateway.resting)
  return tokens
}
