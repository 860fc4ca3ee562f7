/** Where Vertex AI serves a model, and in whose API. */

import { EndpointHeaders } from './endpoint-headers.ts'
import type { Target } from './provider.ts'

const CLAUDE = /^(?:publishers\/anthropic\/models\/)?claude/

/** Vertex AI serves Claude in Anthropic's API, and Google's models in Gemini's. */
export function isClaudeOnVertex(model: string): boolean {
  return CLAUDE.test(model)
}

/** A token takes the place of a key: see `Endpoint.identity`. */
export const vertexHeaders = new EndpointHeaders(() => ({}))

/**
 * The address of a model, to which a method is appended. `gemini-…` is short for `publishers/google/models/gemini-…`, a
 * tuned model is `endpoints/ID`.
 */
export function vertexModel({ endpoint }: Target, publisher: 'google' | 'anthropic', model: string): string {
  const { baseUrl, project = '', location = '' } = endpoint
  const path = model.includes('/') ? model : `publishers/${publisher}/models/${model}`
  const segments = ['projects', project, 'locations', location, ...path.split('/')]
  return `${baseUrl}/v1/${segments.map(segment).join('/')}`
}

/** `:` stands before a method and `@` before a version; a path may contain both. */
function segment(text: string): string {
  return encodeURIComponent(text).replaceAll('%40', '@').replaceAll('%3A', ':')
}
