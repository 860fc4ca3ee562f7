/**
 * The soak's three unreliable providers, in their own process. Reports its ports, and on request the faults that it
 * injected.
 */

import { Upstream } from '../../test/support/upstream.ts'
import { unreliable } from './faults.ts'

const share = Number(process.argv[2] ?? 0.2)
const done: Record<string, number> = {}
let calls = 0
const upstreams = await Promise.all([0, 1, 2].map(() => Upstream.start()))
for (const upstream of upstreams) {
  upstream.otherwise((call) => {
    calls++
    // Recorded requests are not used and would fill the memory.
    upstream.calls.length = 0
    return unreliable(share, (name) => {
      done[name] = (done[name] ?? 0) + 1
    })(call)
  })
}
process.send?.({ ports: upstreams.map(({ port }) => port) })
process.on('message', () => {
  const open = upstreams.reduce((sum, upstream) => sum + upstream.openConnections, 0)
  process.send?.({ calls, faults: done, open })
})
process.on('disconnect', () => process.exit(0))
