/**
 * Checks of models beyond the schema: unique names, existing references, fallbacks without a cycle, complete prices.
 */

import { prefixOf, targetKey } from '../core/model-config.ts'
import { isBaseTier } from '../core/service-tier.ts'
import type { Check } from './check-context.ts'
import { didYouMean, type Path } from './problems.ts'
import { PROVIDER_DIALECTS, providerDialects, takersOf } from './provider-dialects.ts'
import type { Loose } from './schema-errors.ts'
import type { File } from './schema-file.ts'
import { amountProblem } from './spend-limits.ts'

type FileModel = Loose<File['models'][number]>

type Lengths = NonNullable<FileModel['price']>['above']

/** The name that asks for automatic selection. */
const RESERVED = 'auto'

export function checkModels(check: Check): void {
  checkNames(check)
  check.file.models?.forEach((model, index) => {
    if (model === undefined) return
    const path = ['models', index]
    checkTargets(check, model, path)
    checkPattern(check, model, path)
    checkRepeated(check, model, path)
    checkSpread(check, model, path)
    checkFallbacks(check, model, path)
    // What the model can do is not known then.
    if (model.supports?.some((_, at) => check.problems.has([...path, 'supports', at]))) return
    checkAbilities(check, model, path)
    checkPrice(check, model, path)
    checkTiers(check, model, path)
  })
  checkCycles(check)
  checkCandidates(check)
}

/** True for a model of the image endpoints. */
function makesImages(model: FileModel): boolean {
  return model.supports?.includes('image_generation') ?? false
}

function makesEmbeddings(model: FileModel): boolean {
  return model.supports?.includes('embeddings') ?? false
}

function checkNames({ file, problems, shown }: Check): void {
  const names = new Map<string, number>()
  file.models?.forEach((model, index) => {
    if (model?.name === undefined) return
    const path = ['models', index, 'name']
    const first = names.get(model.name)
    if (model.name === RESERVED) problems.add(path, `"${RESERVED}" is reserved for automatic selection`)
    else if (first !== undefined)
      problems.add(path, `${shown(path, model.name)} is already the name of models[${first}]`)
    names.set(model.name, first ?? index)
  })
  file.models?.forEach((model, index) => {
    model?.aliases?.forEach((alias, at) => {
      if (alias === undefined) return
      const path = ['models', index, 'aliases', at]
      const owner = names.get(alias)
      if (alias === RESERVED) problems.add(path, `"${RESERVED}" is reserved for automatic selection`)
      else if (owner !== undefined)
        problems.add(path, `${shown(path, alias)} is the name of models[${owner}]; choose another alias`)
    })
  })
}

/** Other publishers of Vertex AI have APIs of their own. */
function checkPublisher(model: string | undefined, path: Path, problems: Check['problems']): void {
  const publisher = /^publishers\/([^/]*)/.exec(model ?? '')?.[1]
  if (publisher === undefined || publisher === 'google' || publisher === 'anthropic') return
  problems.add(path, `is a model of publisher ${publisher}; weir calls those of google and anthropic only`)
}

function checkTargets({ file, problems, shown }: Check, model: FileModel, path: Path): void {
  const { providers } = file
  if (providers === undefined) return
  model.targets?.forEach((target, index) => {
    const name = target?.provider
    if (name === undefined) return
    const at = [...path, 'targets', index, 'provider']
    if (!Object.hasOwn(providers, name)) {
      problems.add(at, `no provider is named ${shown(at, name)}${didYouMean(name, Object.keys(providers))}`)
      return
    }
    const dialect = providers[name]?.dialect
    if (dialect === undefined) return
    const { takes, images, embeddings } = providerDialects[dialect]
    if (target?.api !== undefined && !takes.includes('api'))
      problems.add(
        [...path, 'targets', index, 'api'],
        `is only for dialect ${takersOf('api').join(', ')}, and ${shown(at, name)} is ${dialect}; remove it`,
      )
    if (dialect === 'vertex') checkPublisher(target?.model, [...path, 'targets', index, 'model'], problems)
    if (makesImages(model) && images !== true) {
      const able = PROVIDER_DIALECTS.filter((other) => providerDialects[other].images).join(' or ')
      problems.add(at, `${shown(at, name)} has dialect ${dialect}, which generates no images; use ${able}`)
    }
    if (makesEmbeddings(model) && embeddings !== true) {
      const able = PROVIDER_DIALECTS.filter((other) => providerDialects[other].embeddings).join(' or ')
      problems.add(at, `${shown(at, name)} has dialect ${dialect}, which makes no embeddings; use ${able}`)
    }
  })
}

/** A name that ends in `*` stands for many models, and so do its targets. */
function checkPattern({ file, problems }: Check, model: FileModel, path: Path): void {
  const { name } = model
  if (name === undefined) return
  const isPattern = prefixOf(name) !== undefined
  const one = 'a pattern has its * at the end, and only there'
  if (prefixOf(name)?.includes('*') || (!isPattern && name.includes('*'))) problems.add([...path, 'name'], one)
  if (isPattern && (model.aliases?.length ?? 0) > 0)
    problems.add([...path, 'aliases'], 'are for the name of one model, and this one is a pattern; remove them')
  model.targets?.forEach((target, index) => {
    const at = [...path, 'targets', index, 'model']
    const wanted = target?.model
    if (wanted === undefined) return
    const prefix = prefixOf(wanted)
    if (isPattern && prefix === undefined)
      problems.add(
        at,
        `must end in *, because the name of the model does: ${name} with model "*" asks for what * stands for`,
      )
    else if (!isPattern && prefix !== undefined)
      problems.add(at, 'ends in *, which needs a name of the model that ends in *, too')
    else if (prefix?.includes('*')) problems.add(at, one)
    const dialect = file.providers?.[target?.provider ?? '']?.dialect
    if (dialect === 'vertex' && prefix !== undefined && !/^(?:gemini|claude)/.test(prefix))
      problems.add(at, 'must begin with gemini or claude: the two have different APIs at Vertex AI')
  })
}

function checkSpread({ problems }: Check, model: FileModel, path: Path): void {
  const weights = model.targets?.map((target) => target?.weight)
  if (weights === undefined) return
  if (model.spread === 'weighted' && weights.length > 0 && weights.every((weight) => weight === 0))
    problems.add([...path, 'targets'], 'every weight is 0, so no target would be chosen; give one a weight above 0')
  if (model.spread === 'weighted') return
  const index = weights.findIndex((weight) => weight !== undefined)
  if (index >= 0)
    problems.warn(
      [...path, 'targets', index, 'weight'],
      'has no effect: the targets are tried in order; set spread: weighted, or remove it',
    )
}

function checkRepeated({ problems }: Check, model: FileModel, path: Path): void {
  const seen = new Map<string, number>()
  model.targets?.forEach((target, index) => {
    if (target?.provider === undefined || target.model === undefined) return
    const key = targetKey({ provider: target.provider, model: target.model })
    const first = seen.get(key)
    if (first === undefined) seen.set(key, index)
    else problems.warn([...path, 'targets', index], `is the same target as targets[${first}]; remove it`)
  })
}

function checkFallbacks(check: Check, model: FileModel, path: Path): void {
  if (makesEmbeddings(model) && (model.fallbacks?.length ?? 0) > 0) {
    check.problems.add(
      [...path, 'fallbacks'],
      'embeddings of different models cannot be compared; list the same model of another provider under targets',
    )
    return
  }
  model.fallbacks?.forEach((name, index) => {
    if (name === undefined) return
    const at = [...path, 'fallbacks', index]
    if (name === model.name) check.problems.add(at, 'a model cannot be its own fallback')
    const other = referenced(check, name, at)
    if (other !== undefined && makesEmbeddings(other)) {
      check.problems.add(at, `${check.shown(at, name)} makes embeddings, so it cannot be a fallback`)
    } else if (other !== undefined && makesImages(other) !== makesImages(model)) {
      const kinds = makesImages(other)
        ? 'generates images and this model does not'
        : 'generates no images and this model does'
      check.problems.add(at, `${check.shown(at, name)} ${kinds}, so it cannot be a fallback`)
    }
  })
}

/** The model with a public name; adds a problem if there is none. */
function referenced({ file, problems, shown }: Check, name: string, path: Path): FileModel | undefined {
  const models = file.models?.filter((model) => model?.name !== undefined) ?? []
  if (prefixOf(name) !== undefined) {
    problems.add(path, `${shown(path, name)} is a pattern; name one model`)
    return undefined
  }
  const found = models.find((model) => model?.name === name)
  if (found !== undefined) return found
  // A name whose variable is missing or empty may be this one.
  if (file.models?.some((model) => model?.name === '' || model?.name?.includes(`\${`))) return undefined
  const owner = models.find((model) => model?.aliases?.includes(name))?.name
  const meant = didYouMean(
    name,
    models.flatMap((model) => model?.name ?? []),
  )
  if (owner === undefined) problems.add(path, `no model is named ${shown(path, name)}${meant}`)
  else problems.add(path, `${shown(path, name)} is an alias; write the public name, "${owner}"`)
  return undefined
}

function checkAbilities({ problems }: Check, model: FileModel, path: Path): void {
  if (makesEmbeddings(model) && (model.supports?.length ?? 0) > 1)
    problems.add([...path, 'supports'], 'embeddings cannot be combined with anything else')
  if (makesImages(model)) {
    const other = model.supports?.find(
      (word) => word === 'tools' || word === 'images' || word === 'documents' || word === 'structured_output',
    )
    if (other !== undefined) {
      problems.add(
        [...path, 'supports'],
        `image_generation cannot be combined with ${other}: a model is for chat or for images`,
      )
    }
  }
  const { default_output_tokens: standard, max_output_tokens: most } = model
  if (standard !== undefined && most !== undefined && standard > most) {
    problems.add([...path, 'default_output_tokens'], `is more than max_output_tokens (${most})`)
  }
  const isUncached = model.prompt_cache?.explicit !== true && !problems.has([...path, 'prompt_cache', 'explicit'])
  if ((model.prompt_cache?.ttls?.length ?? 0) > 0 && isUncached) {
    problems.add([...path, 'prompt_cache', 'ttls'], 'needs prompt_cache.explicit: true')
  }
}

/** Without this check, a price that leaves out what every request uses would charge nothing for it. */
function checkPrice({ problems }: Check, model: FileModel, path: Path): void {
  const { price } = model
  if (price === undefined) return
  const at = [...path, 'price']
  const both = price.input !== undefined && price.output !== undefined
  if (makesImages(model)) {
    if (!Object.hasOwn(price, 'image') && !Object.hasOwn(price, 'images') && !both)
      problems.add(at, 'needs image, or input and output, because the model generates images')
    else if (!both && (price.input !== undefined || price.output !== undefined))
      problems.add(at, 'needs both input and output: a request is priced per image, or by all of its tokens')
    const wrong = amountProblem(price.image)
    if (wrong !== undefined) problems.add([...at, 'image'], wrong)
    for (const [row, amount] of Object.entries(price.images ?? {})) {
      const words = amountProblem(amount)
      if (words !== undefined) problems.add([...at, 'images', row], words)
    }
    if (price.image !== undefined && price.images !== undefined)
      problems.add([...at, 'image'], 'has no effect beside images; remove it, or write it as "*" in images')
    return
  }
  for (const part of makesEmbeddings(model) ? (['input'] as const) : (['input', 'output'] as const)) {
    const kind = makesEmbeddings(model) ? 'an embedding model' : 'a chat model'
    if (!Object.hasOwn(price, part)) problems.add([...at, part], `is missing; the price of ${kind} needs it`)
  }
  for (const part of ['image', 'images'] as const)
    if (price[part] !== undefined)
      problems.add([...at, part], `is only for models that support image_generation; remove it`)
}

/** Tiers and lengths: what is named exists, and nothing stands there twice. */
function checkTiers({ problems, shown }: Check, { price }: FileModel, path: Path): void {
  if (price === undefined) return
  const at = [...path, 'price']
  const names = Object.keys(price.tiers ?? {})
  const exists = (tier: string, place: Path) => {
    if (names.includes(tier) || isBaseTier(tier)) return
    problems.add(place, `no tier is named ${shown(place, tier)}${didYouMean(tier, names)}`)
  }
  checkLengths(problems, price.above, [...at, 'above'])
  for (const [name, tier] of Object.entries(price.tiers ?? {})) {
    const place = [...at, 'tiers', name]
    if (isBaseTier(name)) problems.add(place, 'is a name of the base tier, whose prices stand in price itself')
    checkLengths(problems, tier?.above, [...place, 'above'])
    const others = Object.keys(tier ?? {}).filter((field) => field !== 'factor')
    if (tier?.factor !== undefined && others.length > 0)
      problems.add([...place, 'factor'], `cannot stand beside ${others.join(', ')}: give a factor, or prices`)
    if (tier !== undefined && Object.keys(tier).length === 0) problems.add(place, 'needs a factor, or prices')
  }
  for (const [alias, tier] of Object.entries(price.tier_aliases ?? {})) {
    const place = [...at, 'tier_aliases', alias]
    if (names.includes(alias)) problems.add(place, 'is the name of a tier itself')
    if (isBaseTier(alias)) problems.add(place, 'is a name of the base tier itself')
    if (tier !== undefined) exists(tier, place)
  }
  const standard = price.default_tier
  if (standard === undefined) return
  const alias = price.tier_aliases?.[standard]
  exists(alias ?? standard, [...at, 'default_tier'])
}

function checkLengths(problems: Check['problems'], rows: Lengths, path: Path): void {
  const seen = new Map<number, number>()
  rows?.forEach((row, index) => {
    if (row === undefined) return
    const { input_tokens: length, ...prices } = row
    if (length === undefined) return
    const first = seen.get(length)
    if (first !== undefined) problems.add([...path, index, 'input_tokens'], `is that of above[${first}], too`)
    seen.set(length, first ?? index)
    if (Object.keys(prices).length === 0) problems.add([...path, index], 'needs a price')
  })
}

/** Follows the fallbacks from each model in turn, and reports each fallback that leads back to a model on the way. */
function checkCycles({ file, problems }: Check): void {
  const models = file.models ?? []
  const indexes = new Map<string, number>()
  models.forEach((model, index) => {
    if (model?.name !== undefined && !indexes.has(model.name)) indexes.set(model.name, index)
  })
  const done = new Set<string>()
  const follow = (name: string, trail: readonly string[]): void => {
    const owner = indexes.get(name)
    if (owner === undefined || done.has(name)) return
    const walked = [...trail, name]
    models[owner]?.fallbacks?.forEach((next, at) => {
      const from = next === undefined ? -1 : walked.indexOf(next)
      if (next === undefined || next === name) return
      if (from < 0) {
        follow(next, walked)
        return
      }
      const cycle = [...walked.slice(from), next].join(' -> ')
      problems.add(['models', owner, 'fallbacks', at], `the fallbacks form a cycle: ${cycle}; remove one of them`)
    })
    done.add(name)
  }
  for (const name of indexes.keys()) follow(name, [])
}

function checkCandidates(check: Check): void {
  check.file.auto?.candidates?.forEach((name, index) => {
    if (name === undefined) return
    const path = ['auto', 'candidates', index]
    const model = referenced(check, name, path)
    if (model === undefined || !(makesImages(model) || makesEmbeddings(model))) return
    const what = makesImages(model) ? 'generates images' : 'makes embeddings'
    check.problems.add(path, `${check.shown(path, name)} ${what}; automatic selection is for chat models`)
  })
}
