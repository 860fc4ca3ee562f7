/**
 * Access tokens of the machine's own identity, for providers that take them in place of a key. The packages that fetch
 * them are loaded when the first request needs one.
 */

import type { Endpoint } from '../core/endpoint.ts'
import { ProviderError } from '../core/provider-error.ts'
import { type Expiring, RenewedValue } from './renewed-value.ts'

type Identity = NonNullable<Endpoint['identity']>

const known = new WeakMap<Endpoint, RenewedValue<string>>()

/**
 * The headers with the endpoint's token. Throws `ProviderError` `credential` if there is none to be had.
 */
export async function withToken(
  endpoint: Endpoint,
  identity: Identity,
  headers: Readonly<Record<string, string>>,
): Promise<Readonly<Record<string, string>>> {
  let token = known.get(endpoint)
  if (token === undefined) {
    token = new RenewedValue(() => fetchToken(identity))
    known.set(endpoint, token)
  }
  try {
    return { ...headers, authorization: `Bearer ${await token.get()}` }
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new ProviderError('credential', `no access token from this machine: ${why}`, { cause })
  }
}

function fetchToken(identity: Identity): Promise<Expiring<string>> {
  return fetchAzureToken(identity)
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
