/** A flow as a promise of its answer, and a gateway for it. */

import { Affinity } from '../../src/gateway/affinity.ts'
import type { Answer } from '../../src/gateway/answer.ts'
import { Breaker } from '../../src/gateway/breaker.ts'
import { Flow } from '../../src/gateway/flow.ts'
import type { Gateway } from '../../src/gateway/gateway.ts'
import { TargetUsage } from '../../src/gateway/target-usage.ts'

type Parts = ConstructorParameters<typeof Flow>

/** A gateway of what the test has, and of parts that know nothing yet. An error of our own fails the test. */
export function gatewayOf(parts: Pick<Gateway, 'catalog' | 'ledger' | 'upstreams'> & Partial<Gateway>): Gateway {
  return {
    node: 'n',
    routing: { maxAttempts: 3, totalTimeoutMs: 60_000 },
    breaker: new Breaker(),
    affinity: new Affinity(),
    targetUsage: new TargetUsage(),
    random: () => 0,
    sealer: { seal: () => Buffer.alloc(0), open: () => undefined },
    explainRoute: false,
    isRevoked: () => false,
    report: (error) => {
      throw error
    },
    logEvent: () => {},
    ...parts,
  }
}

/** Runs the flow of a request. Rejects with the error that the caller would get. */
export function answerOf(...[gateway, key, work, running, log]: Drop<Parts>): Promise<Answer> {
  return new Promise((resolve, reject) => {
    new Flow(gateway, key, work, running, log, { answered: resolve, failed: reject, ended: () => {} }).run()
  })
}

/** All but the last. */
type Drop<List extends readonly unknown[]> = List extends readonly [...infer First, unknown] ? First : never
