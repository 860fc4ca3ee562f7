/** What an example sends, whatever its language. */

/** The address of the quickstart. */
export const BASE = 'http://127.0.0.1:8080'

interface WithBody<Kind extends string> {
  readonly kind: Kind
  readonly path: string
  readonly body: object
}

export type SampleRequest =
  | { readonly kind: 'models' }
  | { readonly kind: 'anthropic models' }
  | { readonly kind: 'edits' }
  | WithBody<'chat'>
  | WithBody<'responses'>
  | WithBody<'compact'>
  | WithBody<'messages'>
  | WithBody<'count'>
  | WithBody<'generations'>
  | WithBody<'embeddings'>

/** The source of a program that reads a whole answer, and of one that reads a stream. */
export interface Program {
  readonly whole: string
  readonly stream?: string | undefined
}

export function isOfAnthropic({ kind }: SampleRequest): boolean {
  return kind === 'messages' || kind === 'count' || kind === 'anthropic models'
}

/** The base address for an SDK. Those of Anthropic add `/v1` themselves. */
export function sdkBase(request: SampleRequest): string {
  if (request.kind === 'anthropic models') return `${BASE}/anthropic`
  if (request.kind !== 'messages' && request.kind !== 'count') return `${BASE}/v1`
  return request.path.startsWith('/anthropic/') ? `${BASE}/anthropic` : BASE
}
