/**
 * How many input tokens a request has. The count is free and charged nowhere, but it is a request: limits on those
 * apply.
 */

import { type Needs, needsOf } from '../catalog/capability.ts'
import type { Key } from '../catalog/catalog.ts'
import { fit } from '../catalog/fitted-request.ts'
import { type Candidate, candidatesOf, selectModel } from '../catalog/resolve.ts'
import type { ChatRequest } from '../core/chat-request.ts'
import { hasLimit } from '../core/limits.ts'
import { ProviderError } from '../core/provider-error.ts'
import type { TargetThoughts } from '../core/thoughts.ts'
import { believed } from '../core/token-usage.ts'
import { estimateInput } from '../ledger/estimate.ts'
import type { Account } from '../ledger/ledger.ts'
import type { UpstreamRequest } from '../providers/provider.ts'
import { takenBy } from '../providers/taken-request.ts'
import { UpstreamCall } from '../providers/upstream.ts'
import type { RequestLog } from './access-log.ts'
import { type Gateway, upstreamOf } from './gateway.ts'
import type { RunningRequest } from './in-flight.ts'
import { OwnThoughts, thoughtsFor, withThoughts } from './own-thoughts.ts'
import { parseJson, sendForText } from './provider-call.ts'
import { accountOf } from './request-budgets.ts'
import { RequestReservation } from './reservation.ts'
import { ThoughtSeals } from './shown-thoughts.ts'
import { issuerOf, targetOf } from './thought-issuer.ts'

/** A request whose input tokens are counted. */
interface CountRequest {
  readonly key: Key
  readonly request: ChatRequest
  readonly running: RunningRequest
  readonly log: RequestLog
}

/** Agents count before each turn and have an estimate of their own: they wait no longer than this. */
const COUNT_MS = 10_000

/**
 * The count of the provider that would be called first, if it has a counter and answers in time; else our estimate.
 * Throws the `CallerError` of a model that cannot be used, or of a limit.
 */
export async function countTokens(gateway: Gateway, counted: CountRequest): Promise<number> {
  const { key, request, running, log } = counted
  const selected = selectModel(gateway.catalog, key, request.model, 'chat')
  const needs = needsOf(request, estimateInput(request))
  const { candidates } = candidatesOf(gateway.catalog, key, selected, { kind: 'chat', needs })
  const first = candidates.find(({ target }) => gateway.breaker.isHealthy(target))
  const count = async () => {
    if (first === undefined) return needs.inputTokens
    const thoughts = await findThoughts(gateway, first, counted)
    const inputTokens = needs.inputTokens + (thoughts?.tokens ?? 0)
    return (await countedBy(gateway, first, counted, { ...needs, inputTokens }, thoughts)) ?? inputTokens
  }
  const account = accountOf(key, log.tags?.all, candidates[0]?.model, gateway.overrides)
  if (!limitsRequests(account)) return await count()
  const quote = { model: candidates[0]?.model.name ?? '', inputTokens: 0, maxOutputTokens: 0, price: undefined }
  const reservation = await RequestReservation.open(gateway.ledger, account, quote, log)
  running.reservation = reservation
  const reporter = { report: (error: unknown) => gateway.report(error, log.requestId) }
  try {
    const tokens = await count()
    reservation.settleInBackground(running.interrupted ?? 'completed', undefined, reporter)
    return tokens
  } catch (error) {
    reservation.settleInBackground('refused', undefined, reporter)
    throw error
  }
}

/** Without such limits the ledger is not called: an agent that counts before each turn would double its calls. */
function limitsRequests({ organizationLimits, keyLimits, budgets = [] }: Account): boolean {
  const all = [organizationLimits, keyLimits, ...budgets.map(({ limits }) => limits)]
  return hasLimit(all, ({ unit }) => unit === 'requests')
}

/** What the candidate would get back of its thoughts: it is input, too. */
async function findThoughts(
  gateway: Gateway,
  candidate: Candidate,
  { key, request }: CountRequest,
): Promise<TargetThoughts | undefined> {
  const { id } = key.organization
  const issuer = issuerOf(gateway, candidate, request)
  if (issuer === undefined) return undefined
  const { thoughts: memory, sealer } = gateway
  const recalled = await memory?.recall(id, [candidate.target], request.conversation)
  const own = OwnThoughts.open(request.conversation, new ThoughtSeals(sealer, id))
  return thoughtsFor(issuer, request.conversation, recalled, own)
}

async function countedBy(
  gateway: Gateway,
  candidate: Candidate,
  { request, running, log }: CountRequest,
  needs: Needs,
  thoughts: TargetThoughts | undefined,
): Promise<number | undefined> {
  const { provider, endpoint } = upstreamOf(gateway, candidate)
  const { counter } = provider
  if (counter === undefined) return undefined
  const target = targetOf(candidate.target, endpoint)
  let dispatch: UpstreamRequest
  try {
    dispatch = counter.request(
      takenBy(provider, withThoughts(fit(request, candidate.model, needs), thoughts), target).request,
      target,
    )
  } catch (error) {
    if (error instanceof ProviderError) return undefined
    throw error
  }
  const connection = new UpstreamCall(dispatch, endpoint, false, performance.now() + COUNT_MS)
  running.runs(connection)
  const trace = log.trace?.call(candidate)
  connection.addHeaders(trace?.headers)
  try {
    const text = await sendForText(connection, provider, () => running.bodySent())
    const tokens = counter.tokens(parseJson(text, connection.status))
    trace?.began()
    return believed(tokens, needs.inputTokens)
  } catch (error) {
    // A real request will find out what is wrong with the provider, and report it; here an estimate is an answer.
    if (!(error instanceof ProviderError)) throw error
    const { interrupted } = running
    trace?.ended(
      interrupted === undefined ? { error: error.kind, status: error.detail.status } : { outcome: interrupted },
    )
    return undefined
  }
}
