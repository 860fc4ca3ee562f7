/**
 * What each provider dialect needs and takes: the one list that the schema, the checks, the defaults and the adapters
 * are made from. Their types require an entry for every dialect of this list.
 */

interface Row {
  /** The default address, with a placeholder `{region}`; absent if every account has its own. */
  readonly baseUrl?: string
  /** Fields that it cannot do without. */
  readonly needs: readonly string[]
  /** Fields that it takes besides those of every provider. */
  readonly takes: readonly string[]
  /** Whether its adapter makes images. */
  readonly images: boolean
  /** Credentials of which it needs exactly one. Absent if `api_key` is the only one, which some servers do not need. */
  readonly credentials?: readonly { readonly needs: readonly string[]; readonly takes: readonly string[] }[]
}

/** One way of proving who asks: all the fields that it needs, and others that go with them. */
export interface Credential {
  readonly needs: readonly DialectField[]
  readonly takes: readonly DialectField[]
}

const rows = {
  openai: { baseUrl: 'https://api.openai.com/v1', needs: [], takes: ['api_key'], images: true },
  anthropic: { baseUrl: 'https://api.anthropic.com', needs: [], takes: ['api_key'], images: false },
  gemini: { baseUrl: 'https://generativelanguage.googleapis.com', needs: [], takes: ['api_key'], images: false },
  azure: { needs: ['base_url', 'api_version'], takes: ['api_key', 'api_version'], images: true },
  bedrock: {
    images: false,
    baseUrl: 'https://bedrock-runtime.{region}.amazonaws.com',
    needs: ['region'],
    takes: ['region', 'api_key', 'access_key_id', 'secret_access_key', 'session_token'],
    credentials: [
      { needs: ['api_key'], takes: [] },
      { needs: ['access_key_id', 'secret_access_key'], takes: ['session_token'] },
    ],
  },
} as const satisfies Readonly<Record<string, Row>>

export type ProviderDialect = keyof typeof rows

/** A field that only some dialects take. */
export type DialectField = (typeof rows)[ProviderDialect]['takes'][number]

interface DialectRow extends Row {
  readonly needs: readonly (DialectField | 'base_url')[]
  readonly takes: readonly DialectField[]
  readonly credentials?: readonly Credential[]
}

export const providerDialects: Readonly<Record<ProviderDialect, DialectRow>> = rows

/** Their names, in the order of the list. */
export const PROVIDER_DIALECTS: readonly ProviderDialect[] = Object.keys(rows).filter((name) => isDialect(name))

function isDialect(name: string): name is ProviderDialect {
  return Object.hasOwn(rows, name)
}

/** Every field that some dialect takes and not all must, each once. */
export const DIALECT_FIELDS: readonly DialectField[] = [
  ...new Set(PROVIDER_DIALECTS.flatMap((dialect) => providerDialects[dialect].takes)),
]

/** The dialects that take a field. */
export function takersOf(field: string): readonly ProviderDialect[] {
  return PROVIDER_DIALECTS.filter((dialect) => providerDialects[dialect].takes.some((taken) => taken === field))
}

/** The default address of a dialect; empty if it has none. */
export function defaultBaseUrl(dialect: ProviderDialect, region: string): string {
  return (providerDialects[dialect].baseUrl ?? '').replace('{region}', region)
}
