/** `weir explain`: what would happen to a request of this key for this model, in words for the operator. Asks the configuration alone. */

import { lacks, noNeeds } from '../catalog/capability.ts'
import { type Access, AUTO, access, Catalog, type Key, kindOf, type Model } from '../catalog/catalog.ts'
import { isUsable } from '../catalog/keys.ts'
import { type Candidate, resolve } from '../catalog/resolve.ts'
import { configFile, environment, loadConfig } from '../config/load.ts'
import { didYouMean, quoted } from '../config/problems.ts'
import { Failure } from '../core/error.ts'
import type { Limits, Price } from '../core/money.ts'
import { complain, exit, parseFlags } from './command.ts'

const HELP = `Usage: weir explain --key ID --model NAME [--config FILE]

Says what would happen to a request of this key for this model: which rule allows or denies it, the candidates in the
order in which they would be tried, prices and limits.

  --key ID       the id of the key (not the key itself)
  --model NAME   what the caller would write: a public name, an alias or auto
  --config FILE  the configuration (default: weir.yaml here, then /etc/weir/weir.yaml)
  --help         prints this
`

/** Returns the exit code: 0 also where the answer is a refusal, which is then what was asked for. */
export async function explain(args: readonly string[]): Promise<number> {
  const parsed = parseFlags(args, HELP, {
    key: { type: 'string' },
    model: { type: 'string' },
    config: { type: 'string' },
  })
  if ('code' in parsed) return parsed.code
  const { key: id, model: name, config: flag } = parsed.flags
  if (typeof id !== 'string' || typeof name !== 'string') {
    complain('explain needs --key ID and --model NAME (see --help)')
    return exit.usage
  }
  const loaded = await loadConfig(await configFile(typeof flag === 'string' ? flag : undefined), environment())
  if (!loaded.ok) {
    process.stderr.write(`${loaded.problems.join('\n')}\n`)
    return exit.wrong
  }
  const catalog = Catalog.from(loaded.config)
  const key = catalog.credentials.find((credential) => credential.key.id === id)?.key
  if (key === undefined) {
    const ids = catalog.credentials.map((credential) => credential.key.id)
    complain(`no key of the configuration has the id ${quoted(id)}${didYouMean(id, ids)}`)
    return exit.wrong
  }
  process.stdout.write(`${explanation(catalog, key, name, Date.now()).join('\n')}\n`)
  return exit.done
}

/** The lines of the answer. */
export function explanation(catalog: Catalog, key: Key, name: string, nowMs: number): readonly string[] {
  return [
    `key "${key.id}" of organisation "${key.organization.id}" asks for ${quoted(name)}`,
    ...(isUsable(key, nowMs) ? [] : [`the key is ${key.disabled ? 'disabled' : 'expired'}: 401 invalid_api_key`]),
    `automatic selection: ${key.auto}`,
    ...(name === AUTO ? catalog.autoCandidates : chain(catalog, name)).map((model) => permission(key, model)),
    ...outcome(catalog, key, name),
    ...limitLines(`organisation "${key.organization.id}"`, key.organization.limits),
    ...limitLines(`key "${key.id}"`, key.limits),
  ]
}

/** The model of that name and its fallbacks. */
function chain(catalog: Catalog, name: string): readonly Model[] {
  const model = catalog.lookup(name)
  if (typeof model === 'string') return []
  return [model, ...model.fallbacks.flatMap((other) => catalog.model(other) ?? [])]
}

function permission(key: Key, model: Model): string {
  const verdict = access(key, model)
  return `${model.name}: ${verdict.allowed ? 'allowed' : 'denied'}, ${reason(key, verdict)}`
}

function reason(key: Key, verdict: Access): string {
  const organization = `organisation "${key.organization.id}"`
  if (verdict.allowed) {
    return verdict.rule === undefined ? 'nothing excludes it' : `by rules[${verdict.rule}] of ${organization}`
  }
  switch (verdict.by) {
    case 'organization':
      return `the models of ${organization} do not include it`
    case 'rule':
      return `by rules[${verdict.rule}] of ${organization}`
    case 'key':
      return `the models of key "${key.id}" do not include it`
    case 'price':
      return 'it has no price and a spend limit applies'
  }
}

/** The candidates that would be tried, or the error that the caller would get. */
function outcome(catalog: Catalog, key: Key, name: string): readonly string[] {
  const model = catalog.lookup(name)
  const kind = typeof model === 'string' ? 'chat' : kindOf(model)
  try {
    const { candidates } = resolve(catalog, key, { name, kind, needs: noNeeds }, () => false)
    return ['candidates, in order:', ...candidates.map(candidateLine)]
  } catch (failure) {
    if (!(failure instanceof Failure)) throw failure
    return [`refused: ${failure.row.status} ${failure.code}: ${failure.message}`]
  }
}

function candidateLine({ model, target }: Candidate, index: number): string {
  const cannot = [lacks(model, { ...noNeeds, images: true }), lacks(model, { ...noNeeds, tools: true })].filter(
    (lack) => lack !== undefined,
  )
  const remarks = kindOf(model) === 'image' || cannot.length === 0 ? '' : `; ${cannot.join(', ')}`
  return `  ${index + 1}. ${model.name} at ${target.provider} (${target.model}); ${priceText(model.price)}${remarks}`
}

function priceText(price: Price | undefined): string {
  if (price === undefined) return 'no price'
  const parts = [
    ['input', price.input],
    ['cached input', price.cachedInput],
    ['cache write', price.cacheWrite],
    ['cache write 1h', price.cacheWrite1h],
    ['output', price.output],
  ].flatMap(([what, amount]) => (typeof amount === 'number' ? [`${what} ${dollars(amount)}`] : []))
  const tokens = parts.length === 0 ? [] : [`${parts.join(', ')} a million tokens`]
  return [...tokens, ...(price.image === undefined ? [] : [`${dollars(price.image)} an image`])].join(', ')
}

function limitLines(owner: string, limits: Limits): readonly string[] {
  const { spend } = limits
  const parts = [
    counted(limits.requestsPerMinute, 'requests a minute'),
    counted(limits.tokensPerMinute, 'tokens a minute'),
    counted(limits.concurrentRequests, 'requests at once'),
    spent(spend?.day, 'a day'),
    spent(spend?.month, 'a month'),
    spent(spend?.total, 'in total'),
  ].filter((part) => part !== undefined)
  return [`limits of ${owner}: ${parts.length === 0 ? 'none' : parts.join(', ')}`]
}

function counted(count: number | undefined, what: string): string | undefined {
  return count === undefined ? undefined : `${count} ${what}`
}

function spent(microUsd: number | undefined, window: string): string | undefined {
  return microUsd === undefined ? undefined : `${dollars(microUsd)} ${window}`
}

/** Whole micro-dollars as dollars, with as many digits as they have. */
function dollars(microUsd: number): string {
  return `$${(microUsd / 1_000_000).toFixed(6).replace(/\.?0+$/, '')}`
}
