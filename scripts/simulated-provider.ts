/**
 * A provider to try the gateway with: answers every conversation on a free loopback port. Started by `quickstart.ts`, which it tells
 * its address, and with which it ends.
 */

import { LLMock } from '@copilotkit/aimock'

const provider = new LLMock({ host: '127.0.0.1', port: 0, latency: 40, chunkSize: 12 })

provider.onMessage(/hello/i, {
  content: 'Hello! This answer was made by a simulated provider and came through the gateway, token by token.',
})
provider.onMessage(/.*/s, {
  content: 'This is the simulated provider: it answers everything with this. Set OPENAI_API_KEY to talk to a real one.',
})

// Ctrl-C goes to every process of a terminal; this one is needed until the gateway has ended.
process.on('SIGINT', () => {})
process.on('disconnect', () => process.exit(0))

await provider.start()
process.send?.({ url: provider.url })
