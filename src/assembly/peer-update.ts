/** What one worker finds out and every other worker should know: which targets rest, and where conversations stay. */

import type { Place } from '../gateway/affinity.ts'
import type { Rest } from '../gateway/breaker.ts'

export type PeerUpdate =
  | { readonly about: 'rest'; readonly rest: Rest }
  | { readonly about: 'place'; readonly place: Place }
