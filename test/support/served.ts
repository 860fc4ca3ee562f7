/** What a test file starts before its tests, and what ends after them. */

import { afterAll } from 'bun:test'
import { Gateway, type GatewaySetup } from './gateway.ts'
import { Upstream } from './upstream.ts'

let stack: AsyncDisposableStack | undefined

/** Ends it after the last test, what began last first. For the top level of a test file. */
export function lasting<T extends AsyncDisposable | Disposable>(started: T): T {
  if (stack === undefined) {
    const own = new AsyncDisposableStack()
    stack = own
    afterAll(async () => {
      stack = undefined
      await own.disposeAsync()
    })
  }
  return stack.use(started)
}

/** An upstream for all tests of a file, with answers by model. */
export async function lastingUpstream(...answers: Parameters<typeof Upstream.start>): Promise<Upstream> {
  return lasting(await Upstream.start(...answers))
}

/** A gateway for all tests of a file. */
export async function lastingGateway(setup: GatewaySetup): Promise<Gateway> {
  return lasting(await Gateway.start(setup))
}

/** Both; `setup` gets the address of the upstream. */
export async function served(
  setup: (url: string) => GatewaySetup,
): Promise<{ readonly upstream: Upstream; readonly gateway: Gateway }> {
  const upstream = await lastingUpstream()
  return { upstream, gateway: await lastingGateway(setup(upstream.url)) }
}
