/**
 * The order of a model's targets with `spread: weighted`. A conversation is given to a target by weighted rendezvous
 * hashing, which needs no state: every worker and node computes the same order, and a target that rests, is added or is
 * removed moves only the conversations that are its own.
 */

import { createHash } from 'node:crypto'
import type { Candidate } from '../catalog/resolve.ts'
import { targetKey } from '../core/model-config.ts'
import type { Work } from './work.ts'

/**
 * The candidates, with the targets of each weighted model in the order of the conversation's hash. Models keep their
 * order; without a weighted model it is the same list, and `work` is not asked: naming a conversation takes a hash.
 */
export function spread(candidates: readonly Candidate[], work: Pick<Work, 'conversationWith'>): readonly Candidate[] {
  let ordered: Candidate[] | undefined
  for (let from = 0; from < candidates.length; ) {
    const model = candidates[from]?.model
    let to = from + 1
    while (to < candidates.length && candidates[to]?.model === model) to++
    if (model?.weights !== undefined && to - from > 1) {
      ordered ??= [...candidates]
      ordered.splice(
        from,
        to - from,
        ...byScore(candidates.slice(from, to), model.weights, work.conversationWith(model.name)),
      )
    }
    from = to
  }
  return ordered ?? candidates
}

/** `weights` are in the order of the targets. */
function byScore(targets: readonly Candidate[], weights: readonly number[], conversation: string): Candidate[] {
  const scored = targets.map((candidate, index) => ({
    candidate,
    score: score(conversation, targetKey(candidate.target), weights[index] ?? 1),
  }))
  return scored.sort((one, other) => other.score - one.score).map(({ candidate }) => candidate)
}

/**
 * The greatest of the scores -weight / ln(u), where u is uniform between 0 and 1, falls on each target with a
 * probability of its weight over the sum of weights (Schindelhauer and Schomaker, Weighted Distributed Hash Tables,
 * 2005). A weight of 0 gives -0, after all others.
 */
function score(conversation: string, target: string, weight: number): number {
  const digest = createHash('sha256').update(`${conversation.length}:${conversation}${target}`).digest()
  // Six bytes are exact in a number; the half keeps u away from 0 and 1.
  const u = (digest.readUIntBE(0, 6) + 0.5) / 2 ** 48
  return -weight / Math.log(u)
}
