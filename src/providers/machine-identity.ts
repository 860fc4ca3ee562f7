/**
 * What this machine, or the key of a service account, proves an identity with, one for each endpoint: fetched when
 * needed and renewed in time.
 */

import type { Endpoint } from '../core/endpoint.ts'
import { messageOf } from '../core/error-message.ts'
import { ProviderError } from '../core/provider-error.ts'
import { type Expiring, RenewedValue } from './renewed-value.ts'

export class MachineIdentity<T> {
  /** A reload makes new endpoints; the values of the old ones end with them. */
  private readonly known = new WeakMap<Endpoint, RenewedValue<T>>()

  /** `what` names the value in errors: `access token`; `source` follows it. */
  constructor(
    private readonly what: string,
    private readonly source: string = 'from this machine',
  ) {}

  /** Throws `ProviderError` `credential` if none can be fetched. */
  async of(endpoint: Endpoint, fetch: () => Promise<Expiring<T>>): Promise<T> {
    const renewed = this.known.getOrInsertComputed(endpoint, () => new RenewedValue(fetch))
    try {
      return await renewed.get()
    } catch (cause) {
      throw new ProviderError('credential', `no ${this.what} ${this.source}: ${messageOf(cause)}`, { cause })
    }
  }
}
