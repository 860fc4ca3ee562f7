/** The headers of a request that carries a caller's version and betas. */

import type { OwnFields } from '../../core/own-fields.ts'

type RequestHeaders = Readonly<Record<string, string>>

/** Sets of betas that an endpoint's headers are kept for: an agent sends the same ones with each request. */
const SETS_MAX = 64

/** For the same headers and betas always the same object: the transport keeps the head that it has written for it. */
class BetaHeaders {
  private readonly known = new WeakMap<RequestHeaders, Map<string, RequestHeaders>>()

  /** The operator's betas stay, before those of the caller. */
  of(usual: RequestHeaders, { version, betas }: OwnFields): RequestHeaders {
    const name = `${version} ${betas.join()}`
    const sets = this.known.get(usual) ?? new Map<string, RequestHeaders>()
    this.known.set(usual, sets)
    const known = sets.get(name)
    if (known !== undefined) return known
    if (sets.size >= SETS_MAX) sets.clear()
    const headers: Record<string, string> = {}
    let all = betas
    for (const [field, value] of Object.entries(usual)) {
      if (field.toLowerCase() === 'anthropic-beta') all = [...value.split(',').map((beta) => beta.trim()), ...betas]
      else headers[field] = field === 'anthropic-version' && version !== undefined ? version : value
    }
    if (all.length > 0) headers['anthropic-beta'] = [...new Set(all)].join(',')
    sets.set(name, headers)
    return headers
  }
}

export const betaHeaders = new BetaHeaders()
