/** What of a Messages request only Anthropic's own API takes: its versions and betas, and fields of its body. */

import type { JsonObject } from '../../core/json.ts'
import { NO_BETAS, type OwnFields } from '../../core/own-fields.ts'
import type { CallerHeaders } from '../dialect.ts'
import { refuseForbiddenWithin } from '../forbidden-fields.ts'

/** Fields that weir reads, that others decide about, or that belong to weir's own request. */
const READ: ReadonlySet<string> = new Set([
  ...['model', 'messages', 'system', 'max_tokens', 'temperature', 'top_p', 'stop_sequences', 'tools', 'tool_choice'],
  ...['stream', 'service_tier', 'cache_control', 'prompt_cache_key', 'prompt_cache_retention', 'thread', 'metadata'],
  ...['thinking', 'output_config', 'output_format', 'anthropic_version', 'anthropic_beta'],
])

/** An answer of one header line has room for all betas that there have been. */
const BETAS_MAX = 64
const BETA = /^[\w.:-]{1,100}$/
const VERSION = /^\d{4}-\d{2}-\d{2}$/

type PassedFields = Pick<OwnFields, 'version' | 'betas' | 'members'>

export const NO_OWN_FIELDS: PassedFields = { betas: NO_BETAS, members: {} }

/** The versions, betas and fields that pass. Throws `CallerError` for a forbidden name in one of the fields. */
export function readOwnFields(settings: JsonObject, headers: CallerHeaders | undefined): PassedFields {
  const members: Record<string, JsonObject[string]> = {}
  for (const name in settings) {
    if (READ.has(name) || !Object.hasOwn(settings, name) || settings[name] === undefined) continue
    refuseForbiddenWithin(settings[name], name)
    members[name] = settings[name]
  }
  const version = headers?.get('anthropic-version') ?? ''
  return {
    version: VERSION.test(version) ? version : undefined,
    betas: betasIn(headers?.get('anthropic-beta') ?? ''),
    members,
  }
}

function betasIn(header: string): readonly string[] {
  if (header === '') return NO_BETAS
  const betas = header.split(',').map((beta) => beta.trim())
  return [...new Set(betas.filter((beta) => BETA.test(beta)))].slice(0, BETAS_MAX)
}
