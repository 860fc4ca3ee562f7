/** This process and its providers, as they appear in traces. */

import { hostname } from 'node:os'
import type { ProviderConfig } from '../config/config.ts'
import type { ProviderDialect } from '../config/provider-dialects.ts'
import type { ProviderNames } from '../tracing/spans.ts'
import { VERSION } from './version.ts'

/** `gen_ai.provider.name` of the semantic conventions: the vendor of the API, also if another server speaks it. */
const SYSTEMS: Readonly<Record<ProviderDialect, string>> = {
  openai: 'openai',
  azure: 'azure.ai.openai',
  anthropic: 'anthropic',
  gemini: 'gcp.gemini',
  bedrock: 'aws.bedrock',
  vertex: 'gcp.vertex_ai',
}

export function tracedProvider({ dialect, baseUrl, propagateTrace }: ProviderConfig): ProviderNames {
  const { hostname, port, protocol } = new URL(baseUrl)
  return {
    system: SYSTEMS[dialect],
    address: hostname,
    port: port === '' ? (protocol === 'https:' ? 443 : 80) : Number(port),
    propagates: propagateTrace === true,
  }
}

/** Distinguishes the workers of all nodes. */
const INSTANCE = crypto.randomUUID()

/** Attributes of everything that this process sends. */
export function processAttributes(): Readonly<Record<string, string>> {
  return { 'service.version': VERSION, 'service.instance.id': INSTANCE, 'host.name': hostname() }
}
