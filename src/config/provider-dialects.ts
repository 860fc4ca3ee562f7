/**
 * The table of provider dialects: name, default address, required keys, keys of its own. The schema, the checks, the
 * defaults and the adapters are made from it; the types of `api_key` and the like, and of the adapters, require an
 * entry for each row.
 */

import type { ProviderDialect } from '../core/provider-dialect.ts'

interface Row {
  /**
   * The default address, with a placeholder `{region}` or `{location}` (`vertexHost` has locations of other addresses);
   * absent if every account has its own.
   */
  readonly baseUrl?: string
  /** `gen_ai.provider.name` in traces: the vendor of the API, also if another server speaks it. */
  readonly system: string
  /** Required keys. */
  readonly needs: readonly string[]
  /** Keys that it accepts besides those of every provider. */
  readonly takes: readonly string[]
  /** Its adapter generates images. */
  readonly images?: true
  /** Its adapter makes embeddings. */
  readonly embeddings?: true
  /**
   * Alternative credentials, of which exactly one is required. Absent if `api_key` is the only one; some servers need
   * none.
   */
  readonly credentials?: readonly { readonly needs: readonly string[]; readonly takes: readonly string[] }[]
}

/** One kind of credential: the keys that it requires, and optional ones. */
export interface CredentialKind {
  readonly needs: readonly DialectField[]
  readonly takes: readonly DialectField[]
}

const rows = {
  openai: {
    system: 'openai',
    baseUrl: 'https://api.openai.com/v1',
    needs: [],
    takes: ['api_key', 'api'],
    images: true,
    embeddings: true,
  },
  anthropic: {
    system: 'anthropic',
    baseUrl: 'https://api.anthropic.com',
    needs: [],
    takes: ['api_key'],
  },
  gemini: {
    system: 'gcp.gemini',
    baseUrl: 'https://generativelanguage.googleapis.com',
    needs: [],
    takes: ['api_key'],
  },
  azure: {
    system: 'azure.ai.openai',
    needs: ['base_url', 'api_version'],
    takes: ['api_key', 'api_version', 'credentials', 'api'],
    images: true,
    embeddings: true,
  },
  bedrock: {
    system: 'aws.bedrock',
    baseUrl: 'https://bedrock-runtime.{region}.amazonaws.com',
    needs: ['region'],
    takes: ['region', 'api_key', 'access_key_id', 'secret_access_key', 'session_token', 'credentials'],
    credentials: [
      { needs: ['api_key'], takes: [] },
      { needs: ['credentials'], takes: [] },
      { needs: ['access_key_id', 'secret_access_key'], takes: ['session_token'] },
    ],
  },
  vertex: {
    system: 'gcp.vertex_ai',
    baseUrl: 'https://{location}-aiplatform.googleapis.com',
    needs: ['project', 'location'],
    takes: ['project', 'location', 'credentials', 'service_account'],
    credentials: [
      { needs: ['credentials'], takes: [] },
      { needs: ['service_account'], takes: [] },
    ],
  },
} as const satisfies Readonly<Record<ProviderDialect, Row>>

/** A key that not every provider accepts. */
export type DialectField = (typeof rows)[ProviderDialect]['takes'][number]

interface DialectRow extends Row {
  readonly needs: readonly (DialectField | 'base_url')[]
  readonly takes: readonly DialectField[]
  readonly credentials?: readonly CredentialKind[]
}

export const providerDialects: Readonly<Record<ProviderDialect, DialectRow>> = rows

/** The names of the dialects, in the order of the table. */
export const PROVIDER_DIALECTS: readonly ProviderDialect[] = Object.keys(rows).filter((name) => isDialect(name))

function isDialect(name: string): name is ProviderDialect {
  return Object.hasOwn(rows, name)
}

/** Every key that some dialect accepts and others may not, each once. */
export const DIALECT_FIELDS: readonly DialectField[] = [
  ...new Set(PROVIDER_DIALECTS.flatMap((dialect) => providerDialects[dialect].takes)),
]

/** The dialects that accept a key. */
export function takersOf(field: string): readonly ProviderDialect[] {
  return PROVIDER_DIALECTS.filter((dialect) => providerDialects[dialect].takes.some((taken) => taken === field))
}

/** The default address of a dialect; empty if it has none. */
export function defaultBaseUrl(
  dialect: ProviderDialect,
  { region = '', location = '' }: { readonly region?: string | undefined; readonly location?: string | undefined },
): string {
  return (providerDialects[dialect].baseUrl ?? '')
    .replace('{region}', region)
    .replace('{location}-aiplatform.googleapis.com', vertexHost(location))
}

/** Vertex AI has an address for each region, one for all, and one for each of two groups of regions. */
function vertexHost(location: string): string {
  if (location === 'global') return 'aiplatform.googleapis.com'
  if (location === 'us' || location === 'eu') return `aiplatform.${location}.rep.googleapis.com`
  return `${location}-aiplatform.googleapis.com`
}
