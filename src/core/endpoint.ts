/**
 * A provider of the configuration as its adapter and the HTTP client need it. Plain data; it holds credentials and must
 * never be logged.
 */

/**
 * By which API OpenAI, Azure and servers like them are asked. `auto`: by Chat Completions, unless the model needs
 * Responses for the request.
 */
export type ChatApi = 'auto' | 'chat' | 'responses'

export interface Endpoint {
  /** The provider's name in the configuration. */
  readonly name: string
  /** Without a trailing slash. */
  readonly baseUrl: string
  readonly apiKey?: string | undefined
  /** Azure's `api-version`. */
  readonly apiVersion?: string | undefined
  /** Absent = `auto`. Only for providers that have both APIs. */
  readonly api?: ChatApi | undefined
  /** Bedrock's region and credentials; absent if a Bedrock API key (`apiKey`) is used. */
  readonly aws?:
    | {
        readonly region: string
        /** Absent: the credentials of the machine. */
        readonly keys?:
          | {
              readonly accessKeyId: string
              readonly secretAccessKey: string
              readonly sessionToken?: string | undefined
            }
          | undefined
      }
    | undefined
  /** The project of Vertex AI. */
  readonly project?: string | undefined
  /** The location of Vertex AI: a region, or `global`. */
  readonly location?: string | undefined
  /** Requests carry an access token of this identity. */
  readonly identity?: AzureIdentity | GoogleIdentity | undefined
  /** The operator's own headers; they override the adapter's. */
  readonly headers: Readonly<Record<string, string>>
  readonly deadlines: Deadlines
}

/** The machine's own identity at Azure. */
export interface AzureIdentity {
  readonly cloud: 'azure'
  readonly scope: string
  /** The client id of a user-assigned managed identity. */
  readonly clientId?: string | undefined
  /** A workload identity of Kubernetes, which the environment describes. */
  readonly isWorkload: boolean
}

interface GoogleIdentity {
  readonly cloud: 'google'
  /** Absent: the application default credentials of the machine. */
  readonly serviceAccount?: ServiceAccount | undefined
}

/** A key of a Google service account. */
export interface ServiceAccount {
  readonly email: string
  /** PEM. */
  readonly privateKey: string
  /** The address that exchanges a signed assertion for an access token. */
  readonly tokenUri: string
}

/** Milliseconds. `firstByteMs` differs for streams and whole answers, because a whole answer takes longer to begin. */
interface Deadlines {
  readonly connectMs: number
  readonly firstByteMs: { readonly stream: number; readonly whole: number }
  readonly idleMs: number
  readonly totalMs: number
}
