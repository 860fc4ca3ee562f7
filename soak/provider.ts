/** The providers of the soak in a process of their own: three ports, every model fickle. Says its ports, and at the end what it did. */

import { Upstream } from '../test/support/upstream.ts'
import { fickle } from './faults.ts'

const share = Number(process.argv[2] ?? 0.2)
const done: Record<string, number> = {}
let calls = 0
const upstreams = await Promise.all([0, 1, 2].map(() => Upstream.start()))
for (const upstream of upstreams) {
  upstream.otherwise((call) => {
    calls++
    // What was asked is of no use here; it would be all of the memory.
    upstream.calls.length = 0
    return fickle(share, (name) => {
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
