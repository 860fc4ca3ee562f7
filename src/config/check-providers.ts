/** What a provider must be beyond its shape: an address that can be called, and the fields that its dialect needs. */

import type { Check } from './check.ts'
import type { Loose } from './complaints.ts'
import type { ProviderDialect } from './config.ts'
import type { Path, Problems } from './problems.ts'
import type { File } from './schema.ts'

type Provider = Loose<File['providers'][string]>
type Field = keyof Provider & string

/** What each dialect cannot do without. */
const NEEDED: Readonly<Record<ProviderDialect, readonly Field[]>> = {
  openai: [],
  anthropic: [],
  gemini: [],
  azure: ['base_url', 'api_version'],
  bedrock: ['region', 'access_key_id', 'secret_access_key'],
}

/** What means nothing to the other dialects: there it is most often a mistake in `dialect`. */
const OWN: Readonly<Record<string, ProviderDialect>> = {
  api_version: 'azure',
  region: 'bedrock',
  access_key_id: 'bedrock',
  secret_access_key: 'bedrock',
  session_token: 'bedrock',
}

/** These carry the message itself and belong to whoever sends it. */
const FRAMING_HEADERS: ReadonlySet<string> = new Set([
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'accept-encoding',
])

export function checkProviders({ file, problems }: Check): void {
  for (const [name, provider] of Object.entries(file.providers ?? {})) {
    if (provider === undefined) continue
    const path = ['providers', name]
    checkFields(provider, path, problems)
    checkAddress(provider.base_url, [...path, 'base_url'], problems)
    checkHeaders(Object.keys(provider.headers ?? {}), [...path, 'headers'], problems)
  }
}

function checkFields(provider: Provider, path: Path, problems: Problems): void {
  const { dialect } = provider
  if (dialect === undefined) return
  for (const field of NEEDED[dialect]) {
    if (!Object.hasOwn(provider, field)) problems.add([...path, field], `is missing; dialect ${dialect} needs it`)
  }
  for (const [field, owner] of Object.entries(OWN)) {
    if (owner !== dialect && Object.hasOwn(provider, field)) {
      problems.add([...path, field], `is for dialect ${owner}, and this is ${dialect}; take it out`)
    }
  }
  if (dialect === 'bedrock' && Object.hasOwn(provider, 'api_key')) {
    problems.add([...path, 'api_key'], 'is not for dialect bedrock; give access_key_id and secret_access_key')
  }
}

function checkAddress(address: string | undefined, path: Path, problems: Problems): void {
  if (address === undefined) return
  const url = URL.canParse(address) ? new URL(address) : undefined
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    problems.add(path, 'must be an address that begins with https:// or http://')
  } else if (url.username !== '' || url.password !== '') {
    problems.add(path, 'must not carry a user name or password; use api_key or headers')
  } else if (/[?#]/.test(address)) {
    problems.add(path, 'must not carry a query or fragment')
  }
}

function checkHeaders(names: readonly string[], path: Path, problems: Problems): void {
  const seen = new Set<string>()
  for (const name of names) {
    const lower = name.toLowerCase()
    if (FRAMING_HEADERS.has(lower)) problems.add([...path, name], 'cannot be set; it belongs to the connection')
    if (seen.has(lower)) problems.add([...path, name], 'stands there twice in other letters; keep one of them')
    seen.add(lower)
  }
}
