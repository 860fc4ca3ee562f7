/** The upstream and the gateway of a test file: started before its tests, ended after them. */

import { afterAll } from 'bun:test'
import { Gateway, type GatewaySetup } from './gateway.ts'
import { Upstream } from './upstream.ts'

/** `setup` gets the address of the upstream. For the top level of a test file. */
export async function served(
  setup: (url: string) => GatewaySetup,
): Promise<{ readonly upstream: Upstream; readonly gateway: Gateway }> {
  const upstream = await Upstream.start()
  const gateway = await Gateway.start(setup(upstream.url))
  afterAll(async () => {
    await gateway[Symbol.asyncDispose]()
    await upstream[Symbol.asyncDispose]()
  })
  return { upstream, gateway }
}
