/**
 * AWS credentials of the machine: of an instance role, a container role or a web identity, by AWS's own chain. Its
 * package is loaded when the first request needs it.
 */

import type { Endpoint } from '../../core/endpoint.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { RenewedValue } from '../renewed-value.ts'

export interface AwsKeys {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string | undefined
}

const known = new WeakMap<Endpoint, RenewedValue<AwsKeys>>()

/** Throws `ProviderError` `credential` if the machine has none. */
export async function defaultAwsKeys(endpoint: Endpoint, region: string): Promise<AwsKeys> {
  let keys = known.get(endpoint)
  if (keys === undefined) {
    keys = new RenewedValue(() => fetchKeys(region))
    known.set(endpoint, keys)
  }
  try {
    return await keys.get()
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new ProviderError('credential', `no AWS credentials from this machine: ${why}`, { cause })
  }
}

async function fetchKeys(region: string) {
  const { defaultProvider } = await import('@aws-sdk/credential-provider-node')
  const { accessKeyId, secretAccessKey, sessionToken, expiration } = await defaultProvider({
    clientConfig: { region },
  })()
  return { value: { accessKeyId, secretAccessKey, sessionToken }, expiresAtMs: expiration?.getTime() }
}
