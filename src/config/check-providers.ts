/** Checks of providers beyond the schema: a usable address, and the keys that the dialect needs. */

import type { Check } from './check-context.ts'
import { endpointProblem } from './otel-environment.ts'
import type { Path, Problems } from './problems.ts'
import {
  type CredentialKind,
  DIALECT_FIELDS,
  type DialectField,
  providerDialects,
  takersOf,
} from './provider-dialects.ts'
import type { Loose } from './schema-errors.ts'
import type { File } from './schema-file.ts'
import { readServiceAccount } from './service-account.ts'

type Provider = Loose<File['providers'][string]>

/** Headers of the connection, which the HTTP client sets itself. */
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
    checkServiceAccount(provider.service_account, [...path, 'service_account'], problems)
    checkAddress(provider.base_url, [...path, 'base_url'], problems)
    const own = provider.propagate_trace === true ? ['traceparent', 'tracestate'] : []
    checkHeaders(Object.keys(provider.headers ?? {}), [...path, 'headers'], problems, own)
  }
}

function checkFields(provider: Provider, path: Path, problems: Problems): void {
  const { dialect } = provider
  if (dialect === undefined) return
  const { needs, takes, credentials } = providerDialects[dialect]
  for (const field of needs) {
    if (!Object.hasOwn(provider, field)) problems.add([...path, field], `is missing; dialect ${dialect} needs it`)
  }
  for (const field of DIALECT_FIELDS) {
    if (!Object.hasOwn(provider, field) || takes.includes(field)) continue
    problems.add(
      [...path, field],
      `is only for dialect ${takersOf(field).join(', ')}, and this is ${dialect}; remove it`,
    )
  }
  if (credentials !== undefined) checkCredentials(provider, credentials, path, problems)
  else if (Object.hasOwn(provider, 'credentials') && Object.hasOwn(provider, 'api_key'))
    problems.add(path, 'has more than one credential; give either api_key or credentials')
}

/** A provider needs exactly one of the credentials that its dialect accepts, and all keys of it. */
function checkCredentials(
  provider: Provider,
  credentials: readonly CredentialKind[],
  path: Path,
  problems: Problems,
): void {
  const has = (field: DialectField) => Object.hasOwn(provider, field)
  const choice = credentials.map(({ needs }) => needs.join(' and ')).join(', or ')
  const given = credentials.map(({ needs, takes }) => ({ needs, fields: [...needs, ...takes].filter(has) }))
  const [credential, other] = given.filter(({ fields }) => fields.length > 0)
  if (credential === undefined) {
    problems.add(path, `has no credential; dialect ${provider.dialect} needs ${choice}`)
  } else if (other !== undefined) {
    problems.add(path, `has more than one credential; give either ${choice}`)
  } else {
    const { needs, fields } = credential
    for (const field of needs) {
      if (!has(field)) problems.add([...path, field], `is missing; ${fields.join(' and ')} needs it`)
    }
  }
}

/** The value is a secret, so the message does not show it. */
function checkServiceAccount(key: string | undefined, path: Path, problems: Problems): void {
  if (key === undefined || readServiceAccount(key) !== undefined) return
  problems.add(
    path,
    `must be the JSON of a service account key, with client_email and private_key; write "\${file:PATH}" for a file`,
  )
}

function checkAddress(address: string | undefined, path: Path, problems: Problems): void {
  const problem = address === undefined ? undefined : endpointProblem(address, 'api_key or headers')
  if (problem !== undefined) problems.add(path, problem)
}

/** `own`: headers in lower case that weir sets itself in these requests. */
export function checkHeaders(names: readonly string[], path: Path, problems: Problems, own: readonly string[]): void {
  const seen = new Set<string>()
  for (const name of names) {
    const lower = name.toLowerCase()
    if (FRAMING_HEADERS.has(lower))
      problems.add([...path, name], 'cannot be set, because it belongs to the connection; remove it')
    if (own.includes(lower)) problems.add([...path, name], 'cannot be set, because weir sets it; remove it')
    if (seen.has(lower)) problems.add([...path, name], 'duplicate header (names are case-insensitive); keep one')
    seen.add(lower)
  }
}
