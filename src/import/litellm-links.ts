/** Fallbacks and aliases of a LiteLLM file, which are links between models that were carried over. */

import { MODEL_NAME } from '../config/field-types.ts'
import { isArray, isObject, type JsonObject, type JsonValue, stringOf } from '../core/json.ts'
import type { Notes } from './litellm-notes.ts'

export type Kind = 'chat' | 'image' | 'embedding'

/** What models of a kind do, in notes. */
export const DOES: Readonly<Record<Kind, string>> = {
  chat: 'is for chat',
  image: 'generates images',
  embedding: 'makes embeddings',
}

/** A model whose links are added here. */
interface Linked {
  readonly kind: Kind
  readonly fallbacks: string[]
  readonly aliases: string[]
}

type Models = ReadonlyMap<string, Linked>

/** `fallbacks: [{ "gpt-4": ["claude"] }]`, and `default_fallbacks` for all models. */
export function addFallbacks(file: JsonObject, models: Models, notes: Notes): void {
  for (const section of ['router_settings', 'litellm_settings']) {
    const settings = isObject(file[section]) ? file[section] : {}
    const list = isArray(settings['fallbacks']) ? settings['fallbacks'].filter(isObject) : []
    for (const [name, others] of list.flatMap((each) => Object.entries(each))) {
      for (const other of isArray(others) ? others : []) addFallback(models, name, other, `${section}.fallbacks`, notes)
    }
    const defaults = isArray(settings['default_fallbacks']) ? settings['default_fallbacks'] : []
    for (const other of defaults)
      for (const name of models.keys())
        if (name !== other) addFallback(models, name, other, `${section}.default_fallbacks`, notes)
  }
}

function addFallback(models: Models, from: string, to: JsonValue, place: string, notes: Notes): void {
  const other = typeof to === 'string' ? to : ''
  const [model, next] = [models.get(from), models.get(other)]
  const lost = (why: string) => notes.lost(place, `${from} to ${other || 'no name'} is not carried over: ${why}`)
  if (model === undefined || next === undefined) return lost('one of them is not in the new file')
  if (model.fallbacks.includes(other)) return undefined
  if (model.kind !== next.kind) return lost(`one ${DOES[model.kind]} and the other ${DOES[next.kind]}`)
  if (model.kind === 'embedding') return lost('embeddings of different models cannot be compared')
  if (reaches(models, other, from)) return lost('it would close a circle of fallbacks')
  model.fallbacks.push(other)
  return undefined
}

/** Whether the fallbacks of one model lead to another. */
function reaches(models: Models, from: string, to: string): boolean {
  const seen = new Set<string>()
  const ahead = [from]
  for (let name = ahead.pop(); name !== undefined; name = ahead.pop()) {
    if (name === to) return true
    if (seen.has(name)) continue
    seen.add(name)
    ahead.push(...(models.get(name)?.fallbacks ?? []))
  }
  return false
}

/** `model_group_alias: { "gpt-4": "gpt-4o" }` */
export function addAliases(file: JsonObject, models: Models, notes: Notes): void {
  const settings = isObject(file['router_settings']) ? file['router_settings'] : {}
  const aliases = isObject(settings['model_group_alias']) ? settings['model_group_alias'] : {}
  for (const [alias, value] of Object.entries(aliases)) {
    const name = isObject(value) ? stringOf(value['model']) : stringOf(value)
    const model = models.get(name ?? '')
    const isFit = new RegExp(MODEL_NAME).test(alias) && alias !== 'auto' && !models.has(alias)
    const isTaken = Array.from(models.values()).some((each) => each.aliases.includes(alias))
    if (model !== undefined && isFit && !isTaken) model.aliases.push(alias)
    else notes.lost('router_settings.model_group_alias', `${alias} is not carried over: ${aliasProblem(name, model)}`)
  }
}

function aliasProblem(name: string | undefined, model: Linked | undefined): string {
  return model === undefined ? `${name ?? 'its model'} is not in the new file` : 'the name is taken or not possible'
}
