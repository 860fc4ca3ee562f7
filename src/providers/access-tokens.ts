/**
 * Access tokens of the machine's own identity or of a service account, for providers that take them in place of a key.
 * The packages that fetch them are loaded when the first request needs one.
 */

import type { AzureIdentity, Endpoint, ServiceAccount } from '../core/endpoint.ts'
import { type Expiring, MachineIdentity } from './renewed-value.ts'

type Identity = NonNullable<Endpoint['identity']>

const tokens = new MachineIdentity<string>('access token')
const keyTokens = new MachineIdentity<string>('access token', 'for the service account key')

/** The headers with the endpoint's token. Throws `ProviderError` `credential` if none can be fetched. */
export async function withToken(
  endpoint: Endpoint,
  identity: Identity,
  headers: Readonly<Record<string, string>>,
): Promise<Readonly<Record<string, string>>> {
  return { ...headers, authorization: `Bearer ${await tokenOf(endpoint, identity)}` }
}

function tokenOf(endpoint: Endpoint, identity: Identity): Promise<string> {
  if (identity.cloud === 'azure') return tokens.of(endpoint, () => fetchAzureToken(identity))
  const { serviceAccount } = identity
  if (serviceAccount === undefined) return tokens.of(endpoint, () => fetchDefaultGoogleToken(endpoint.project))
  return keyTokens.of(endpoint, () => exchangeKey(serviceAccount))
}

/** A token for the workload identity of the pod, if it has one, else for the managed identity of the machine. */
async function fetchAzureToken({ scope, clientId, isWorkload }: AzureIdentity): Promise<Expiring<string>> {
  const { ManagedIdentityCredential, WorkloadIdentityCredential } = await import('@azure/identity')
  const managed = () =>
    clientId === undefined ? new ManagedIdentityCredential() : new ManagedIdentityCredential({ clientId })
  const { token, expiresOnTimestamp } = await (isWorkload ? new WorkloadIdentityCredential() : managed()).getToken(
    scope,
  )
  return { value: token, expiresAtMs: expiresOnTimestamp }
}

const GOOGLE_SCOPE = 'https://www.googleapis.com/auth/cloud-platform'

/**
 * Of the application default credentials: a file that the environment names, such as a workload identity federation,
 * else gcloud's own, else the metadata server.
 */
async function fetchDefaultGoogleToken(projectId: string | undefined): Promise<Expiring<string>> {
  const { GoogleAuth, gcpMetadata } = await import('google-auth-library')
  // The library asks once per process if there is a metadata server. That of a pod may start later than weir.
  gcpMetadata.resetIsAvailableCache()
  // With a project, it does not look for one, for which it would run gcloud.
  const client = await new GoogleAuth({ scopes: GOOGLE_SCOPE, ...(projectId && { projectId }) }).getClient()
  const { token } = await client.getAccessToken()
  return googleToken(token, client.credentials.expiry_date)
}

/** The library asks only `oauth2.googleapis.com`; the key names the address that it is for. */
async function exchangeKey({ email, privateKey, tokenUri }: ServiceAccount): Promise<Expiring<string>> {
  const { JWT } = await import('google-auth-library')
  const additionalClaims = { aud: tokenUri }
  const client = new JWT({ email, key: privateKey, scopes: [GOOGLE_SCOPE], additionalClaims })
  client.transporter.interceptors.request.add({
    resolved: async (request) => Object.assign(request, { url: new URL(tokenUri) }),
  })
  const { access_token: token, expiry_date: expiresAtMs } = await client.authorize()
  return googleToken(token, expiresAtMs)
}

/** How long a token that comes without its expiry is used. Google's live for an hour. */
const UNKNOWN_LIFE_MS = 600_000

function googleToken(token: string | null | undefined, expiresAtMs: number | null | undefined): Expiring<string> {
  if (typeof token !== 'string' || token === '') throw new Error('the answer has no access token')
  return { value: token, expiresAtMs: expiresAtMs ?? Date.now() + UNKNOWN_LIFE_MS }
}
