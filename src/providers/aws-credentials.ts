/**
 * AWS credentials of the machine: of an instance role, a container role or a web identity, by AWS's own chain. Its
 * package is loaded when the first request needs it.
 */

import type { Endpoint } from '../core/endpoint.ts'
import { MachineIdentity } from './renewed-value.ts'

export type AwsKeys = NonNullable<NonNullable<Endpoint['aws']>['keys']>

const keys = new MachineIdentity<AwsKeys>('AWS credentials')

/** Throws `ProviderError` `credential` if the machine has none. */
export function defaultAwsKeys(endpoint: Endpoint, region: string): Promise<AwsKeys> {
  return keys.of(endpoint, () => fetchKeys(region))
}

async function fetchKeys(region: string) {
  const { defaultProvider } = await import('@aws-sdk/credential-provider-node')
  const { accessKeyId, secretAccessKey, sessionToken, expiration } = await defaultProvider({
    clientConfig: { region },
  })()
  return { value: { accessKeyId, secretAccessKey, sessionToken }, expiresAtMs: expiration?.getTime() }
}
