/**
 * How requests to a target are written: by its address and the name of its model, and by what it has rejected. Some
 * servers reject what weir adds to a request, or miss what no caller of weir has, and only their answer shows it.
 */

import type { JsonObject } from '../../core/json.ts'
import type { ProviderError } from '../../core/provider-error.ts'
import { PerTarget } from '../per-target.ts'
import type { Target } from '../provider.ts'
import { SIGNATURE_REJECTED } from '../thought-signature.ts'
import { azureAddress, openaiAddress, type ProviderAddress } from './endpoints.ts'
import { isMistral, mistralBody } from './mistral.ts'
import { isMoonshot, moonshotBody } from './moonshot.ts'
import { withSignatures, withThoughts } from './thoughts.ts'

/** What every request to a target has in common. */
export interface ServerForm extends ProviderAddress {
  readonly isOpenai: boolean
  /** For a server that needs more than its own address: makes its body of the usual one. */
  readonly adapt: ((body: JsonObject) => JsonObject) | undefined
  readonly limitName: 'max_completion_tokens' | 'max_tokens'
  /** Without them a server may not report usage, which weir then estimates. */
  readonly takesStreamOptions: boolean
  /** The JSON of a plain request up to its messages. */
  readonly opening: string
}

/**
 * Models that reject `max_tokens` and require `max_completion_tokens`; many other servers know only `max_tokens`.
 * Azure's deployments and fine-tuned models have any name.
 */
const COMPLETION_LIMIT = /^(?:.*\/)?(?:o\d|gpt-[5-9])/

/** OpenAI's own API. */
const OPENAI = /^https:\/\/(?:[a-z0-9-]+\.)?api\.openai\.com[:/]/

const CHAT_PATH = '/chat/completions'

export const openaiForms = new PerTarget((target) => formOf(target, openaiAddress(target, CHAT_PATH)))
export const azureForms = new PerTarget((target) => formOf(target, azureAddress(target, CHAT_PATH)))

function formOf({ model, endpoint }: Target, address: ProviderAddress): ServerForm {
  return {
    ...address,
    isOpenai: OPENAI.test(address.url),
    adapt: adapterOf(endpoint.baseUrl),
    limitName: COMPLETION_LIMIT.test(model) ? 'max_completion_tokens' : 'max_tokens',
    takesStreamOptions: true,
    opening: `{"model":${JSON.stringify(model)},"messages":[`,
  }
}

function adapterOf(baseUrl: string): ServerForm['adapt'] {
  return isMistral(baseUrl) ? mistralBody : isMoonshot(baseUrl) ? moonshotBody : undefined
}

/** "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead." */
const OTHER_LIMIT_WANTED = /'max_tokens' is not supported.*'max_completion_tokens'/
/** "Unrecognized request argument supplied: stream_options", and other servers in their own words. */
const OPTIONS_REJECTED = /\bstream_options\b/
/** "The `reasoning_content` in the thinking mode must be passed back to the API." */
const THOUGHTS_WANTED = /\breasoning_content\b/

/**
 * What must change for a server that rejected a request with this error; undefined if the error shows nothing about
 * that. A caller's words may be in the error, so the change is no more than an attempt.
 */
export function changeFor({ kind, message }: ProviderError, { adapt }: ServerForm): Partial<ServerForm> | undefined {
  if (kind !== 'rejected') return undefined
  if (OTHER_LIMIT_WANTED.test(message)) return { limitName: 'max_completion_tokens' }
  if (OPTIONS_REJECTED.test(message)) return { takesStreamOptions: false }
  const wanted = THOUGHTS_WANTED.test(message)
    ? withThoughts
    : SIGNATURE_REJECTED.test(message)
      ? withSignatures
      : undefined
  return wanted !== undefined && (adapt === undefined || adapt === wanted) ? { adapt: wanted } : undefined
}
