/**
 * Digests of a configuration, by which nodes find out whether theirs is the same, and in what it is not. They are
 * keyed: without the key, which all nodes of a Redis share, no secret of a configuration can be guessed by its digest.
 */

import { createHash, createHmac } from 'node:crypto'
import type { NodeRow, Nodes } from '../../admin/api-shapes.ts'
import { fileKey } from '../../config/changes.ts'
import type { Config } from '../../config/config.ts'
import { isArray, isObject } from '../../core/json.ts'

/** The digests of the parts that operators ask about first; `configuration` is of everything below. */
export interface Digests {
  readonly configuration: string
  readonly models: string
  readonly prices: string
  readonly organizations: string
}

/** A thing of a list: its name, its place in the file, and a digest for each field, or one of the whole (`''`). */
type ListedDigests = readonly [name: string, place: number, fields: Readonly<Record<string, string>>]

/** Enough to say where two configurations differ. */
export interface DetailedDigests {
  /** `routing.max_attempts` */
  readonly settings: Readonly<Record<string, string>>
  /** `models`, `providers`, `organizations`. */
  readonly lists: Readonly<Record<string, readonly ListedDigests[]>>
}

const DIGEST_CHARS = 16
/** Of one field of one thing. */
const FIELD_CHARS = 8
/** Of a longer list only whole things have digests. */
const DETAILED_LIST_MAX = 1000

const NAME_OF: Readonly<Record<string, string>> = { models: 'name', providers: 'name', organizations: 'id' }

/**
 * What every node should have alike. Not what belongs to the machine: where a node listens and what its memory takes,
 * its name, its `data_dir`, its workers, the form of its log, and how it reaches Redis.
 */
function shared(config: Config): Readonly<Record<string, unknown>> {
  const { listen, admin, workers: _, dataDir: __, nodeName: ___, log: ____, ledger, ...rest } = config
  const { explainHeader, proxyProtocol } = listen
  return { ...rest, listen: { explainHeader, proxyProtocol }, admin: { tokens: admin.tokens }, ledger: ledger.kind }
}

/**
 * What the digests of a configuration are made of: without a key, so it stays in this process. Takes 0.3 s for 10,000
 * organisations, and their digests with any key no time.
 */
export function hashesOf(config: Config): Digests {
  const { models, auto, organizations } = config
  const hashes = {
    models: hashOf({ models, auto }),
    prices: hashOf(models.map(({ name, price }) => ({ name, price }))),
    organizations: hashOf(organizations),
  }
  return {
    configuration: hashOf({ ...shared(config), models: hashes.models, organizations: hashes.organizations }),
    ...hashes,
  }
}

export function digestsOf({ configuration, models, prices, organizations }: Digests, secret: string): Digests {
  const digest = (hash: string) => keyed(hash, secret, DIGEST_CHARS)
  return {
    configuration: digest(configuration),
    models: digest(models),
    prices: digest(prices),
    organizations: digest(organizations),
  }
}

export function detailsOf(config: Config, secret: string): DetailedDigests {
  const digest = (value: unknown) => keyed(canonical(value), secret, FIELD_CHARS)
  const settings: Record<string, string> = {}
  const lists: Record<string, readonly ListedDigests[]> = {}
  for (const [section, value] of Object.entries(shared(config))) {
    const name = NAME_OF[section]
    if (name !== undefined && Array.isArray(value)) lists[section] = listed(value, name, digest)
    else if (isObject(value)) {
      for (const [field, part] of Object.entries(value))
        settings[`${fileKey(section)}.${fileKey(field)}`] = digest(part)
    } else settings[fileKey(section)] = digest(value)
  }
  return { settings, lists }
}

function listed(list: readonly unknown[], name: string, digest: (value: unknown) => string): readonly ListedDigests[] {
  return list.filter(isObject).map((thing, place) => {
    if (list.length > DETAILED_LIST_MAX) return [String(thing[name]), place, { '': digest(thing) }]
    const fields = Object.entries(thing).filter(([, part]) => part !== undefined)
    return [
      String(thing[name]),
      place,
      Object.fromEntries(fields.map(([field, part]) => [fileKey(field), digest(part)])),
    ]
  })
}

function hashOf(value: unknown): string {
  return createHash('sha256').update(canonical(value)).digest('hex')
}

function keyed(text: string, secret: string, chars: number): string {
  return createHmac('sha256', secret).update(text).digest('hex').slice(0, chars)
}

/** JSON that is the same for equal values, whatever the order of their fields. A map is as an object. */
function canonical(value: unknown): string {
  if (isArray(value)) return `[${value.map(canonical).join()}]`
  if (value instanceof Map) return canonical(Object.fromEntries(value))
  if (!isObject(value)) return JSON.stringify(value) ?? 'null'
  const names = Object.keys(value).filter((name) => value[name] !== undefined)
  return `{${names
    .sort()
    .map((name) => `${JSON.stringify(name)}:${canonical(value[name])}`)
    .join()}}`
}

/** Where a configuration differs from another, as the file has it: `models[3].price`. Things are paired by name. */
export function differences(reference: DetailedDigests, other: DetailedDigests): readonly string[] {
  const settings = differingKeys(reference.settings, other.settings)
  const names = new Set([...Object.keys(reference.lists), ...Object.keys(other.lists)])
  const things = [...names].flatMap((section) =>
    differingThings(section, reference.lists[section] ?? [], other.lists[section] ?? []),
  )
  return [...things, ...settings]
}

function differingThings(
  section: string,
  reference: readonly ListedDigests[],
  other: readonly ListedDigests[],
): readonly string[] {
  const before = new Map(reference.map((thing) => [thing[0], thing]))
  const after = new Map(other.map((thing) => [thing[0], thing]))
  const changed = other.flatMap(([name, place, fields]) => {
    const expected = before.get(name)?.[2]
    if (expected === undefined) return [`${section}[${place}]`]
    return differingKeys(expected, fields).map((field) => `${section}[${place}]${field === '' ? '' : `.${field}`}`)
  })
  const missing = reference.flatMap(([name, place]) => (after.has(name) ? [] : [`${section}[${place}]`]))
  const kept = (list: readonly ListedDigests[]) =>
    list.flatMap(([name]) => (before.has(name) && after.has(name) ? [name] : []))
  const isMoved = changed.length + missing.length === 0 && !Bun.deepEquals(kept(reference), kept(other))
  return [...new Set([...changed, ...missing, ...(isMoved ? [section] : [])])]
}

function differingKeys(
  reference: Readonly<Record<string, string>>,
  other: Readonly<Record<string, string>>,
): readonly string[] {
  const keys = new Set([...Object.keys(reference), ...Object.keys(other)])
  return [...keys].filter((key) => reference[key] !== other[key])
}

/** More sections are of no use to anybody. */
const SECTIONS_MAX = 100

/**
 * Where the nodes of a fleet differ, and which of them are otherwise than most. `knownDetails`: the detailed digests of
 * a configuration by its digest, if they are known.
 */
export function mixedNodes(
  nodes: readonly NodeRow[],
  knownDetails: (digest: string) => DetailedDigests | undefined,
): Nodes['mixed'] {
  // One that leaves is allowed to be of before.
  const staying = nodes.filter(({ state }) => state === 'ready')
  const bySection = new Map<string, string[]>()
  const add = (section: string, ids: readonly string[]) =>
    bySection.set(section, [...(bySection.get(section) ?? []), ...ids])
  const [, ...versions] = groups(staying, versionOf)
  if (versions.length > 0) add('version', idsOf(versions.flat()))
  const [most, ...others] = groups(staying, ({ digests }) => digests.configuration)
  for (const group of others) {
    const [reference, node] = [most?.[0], group[0]]
    if (reference === undefined || node === undefined) continue
    for (const section of sectionsOf(reference, node, knownDetails)) add(section, idsOf(group))
  }
  return [...bySection].slice(0, SECTIONS_MAX).map(([section, ids]) => ({ section, nodes: ids }))
}

function versionOf({ version, commit }: NodeRow): string {
  return `${version} ${commit}`
}

function idsOf(nodes: readonly NodeRow[]): readonly string[] {
  return nodes.map(({ id }) => id)
}

/** The largest first; of two alike, that of the node that has run the longest. */
function groups(nodes: readonly NodeRow[], of: (node: NodeRow) => string): readonly (readonly NodeRow[])[] {
  const oldestFirst = nodes.toSorted((a, b) => a.since.localeCompare(b.since) || a.id.localeCompare(b.id))
  return [...Map.groupBy(oldestFirst, of).values()].sort((a, b) => b.length - a.length)
}

/** Another version may make another digest of the same configuration: then only what can be named is different. */
function sectionsOf(
  reference: NodeRow,
  node: NodeRow,
  knownDetails: (digest: string) => DetailedDigests | undefined,
): readonly string[] {
  const [before, after] = [knownDetails(reference.digests.configuration), knownDetails(node.digests.configuration)]
  const found = before === undefined || after === undefined ? [] : differences(before, after)
  if (found.length > 0 || versionOf(reference) !== versionOf(node)) return found
  const parts = (['models', 'prices', 'organizations'] as const).filter(
    (part) => reference.digests[part] !== node.digests[part],
  )
  return parts.length > 0 ? parts : ['configuration']
}
