/** A flow as a promise of its answer. */

import type { Answer } from '../../src/gateway/answer.ts'
import { Flow } from '../../src/gateway/flow.ts'

type Parts = ConstructorParameters<typeof Flow>

/** Runs the flow of a request. Rejects with the error that the caller would get. */
export function answerOf(...[gateway, key, work, running, log]: Drop<Parts>): Promise<Answer> {
  return new Promise((resolve, reject) => {
    new Flow(gateway, key, work, running, log, { answered: resolve, failed: reject, ended: () => {} }).run()
  })
}

/** All but the last. */
type Drop<List extends readonly unknown[]> = List extends readonly [...infer First, unknown] ? First : never
