/** A catalog for the tests, and functions that change its data. */

import { createHash } from 'node:crypto'
import { Catalog, type CatalogConfig, type Key } from '../../src/catalog/catalog.ts'
import type { ChatRequest } from '../../src/core/chat-request.ts'
import type { ModelConfig } from '../../src/core/model-config.ts'
import type { KeyConfig, OrganizationConfig } from '../../src/core/organization-config.ts'
import { chatRequest, type Literal } from '../support/literal.ts'

export const hash = (token: string): string => createHash('sha256').update(token).digest('hex')

export function model(name: string, changes: Partial<ModelConfig> = {}): ModelConfig {
  return {
    name,
    aliases: [],
    targets: [{ provider: 'p', model: `${name}-1` }],
    fallbacks: [],
    price: { input: 1, output: 1 },
    defaultOutputTokens: 4096,
    supports: ['tools', 'images'],
    promptCache: { key: false, explicit: false, ttls: [] },
    ...changes,
  }
}

export function key(id: string, changes: Partial<KeyConfig> = {}): KeyConfig {
  return { id, sha256: hash(`secret-of-${id}`), auto: 'off', limits: {}, disabled: false, ...changes }
}

export function organization(id: string, changes: Partial<OrganizationConfig> = {}): OrganizationConfig {
  return { id, rules: [], auto: 'off', limits: {}, keys: [key('k')], ...changes }
}

export function catalog(changes: Partial<CatalogConfig> = {}): Catalog {
  return Catalog.from({
    ownedBy: 'weir',
    models: [model('a'), model('b'), model('c')],
    organizations: [organization('o')],
    auto: { candidates: [] },
    ...changes,
  })
}

export function keyOf(from: Catalog, id = 'k'): Key {
  const found = from.credentials.find((credential) => credential.key.id === id)
  if (found === undefined) throw new Error(`there is no key ${id}`)
  return found.key
}

export function chat(changes: Partial<Literal> = {}): ChatRequest {
  return chatRequest({
    model: 'a',
    stream: false,
    messages: [{ role: 'user', parts: [{ type: 'text', text: 'hi' }] }],
    tools: [],
    limitsOutput: false,
    stop: [],
    sampling: {},
    hints: {},
    cacheStrict: false,
    ...changes,
  })
}
