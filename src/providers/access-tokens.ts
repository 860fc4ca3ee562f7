/**
 * Access tokens of the machine's own identity, for providers that take them in place of a key. The packages that fetch
 * them are loaded when the first request needs one.
 */

import type { Endpoint } from '../core/endpoint.ts'
import { MachineIdentity } from './machine-identity.ts'
import type { Expiring } from './renewed-value.ts'

type Identity = NonNullable<Endpoint['identity']>

const tokens = new MachineIdentity<string>('access token')

/** The headers with the endpoint's token. Throws `ProviderError` `credential` if there is none to be had. */
export async function withToken(
  endpoint: Endpoint,
  identity: Identity,
  headers: Readonly<Record<string, string>>,
): Promise<Readonly<Record<string, string>>> {
  const token = await tokens.of(endpoint, () => fetchAzureToken(identity))
  return { ...headers, authorization: `Bearer ${token}` }
}

/** Of the workload identity of a pod if there is one, else of the managed identity of the machine. */
async function fetchAzureToken({ scope, clientId, isWorkload }: Identity): Promise<Expiring<string>> {
  const { ManagedIdentityCredential, WorkloadIdentityCredential } = await import('@azure/identity')
  const managed = () =>
    clientId === undefined ? new ManagedIdentityCredential() : new ManagedIdentityCredential({ clientId })
  const { token, expiresOnTimestamp } = await (isWorkload ? new WorkloadIdentityCredential() : managed()).getToken(
    scope,
  )
  return { value: token, expiresAtMs: expiresOnTimestamp }
}
