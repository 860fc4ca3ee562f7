/**
 * What differs between two configurations, one line each, for `weir reload` and the log: `+ model gpt-5`,
 * `~ price of claude-sonnet`, `- key ci`. It names things and never shows a value: values may be secrets.
 */

import { targetKey } from '../core/model-config.ts'
import type { Config } from './config.ts'

interface Named {
  readonly id: string
  readonly fields: Readonly<Record<string, unknown>>
}

/** A kind of thing that has names. */
interface Kind {
  readonly noun: string
  /** What stands before the name in `~ price of claude-sonnet`; empty for models, of which most lines are. */
  readonly prefix: string
  readonly of: (config: Config) => readonly Named[]
}

const kinds: readonly Kind[] = [
  {
    noun: 'provider',
    prefix: 'provider ',
    of: ({ providers, capacity }) =>
      providers.map(({ name, ...fields }) => ({ id: name, fields: { ...fields, limits: capacity?.providers[name] } })),
  },
  {
    noun: 'model',
    prefix: '',
    of: ({ models, capacity }) =>
      models.map(({ name, ...fields }) => {
        const limits = fields.targets.map(
          (target) => capacity?.targets.find((limited) => targetKey(limited) === targetKey(target))?.limits,
        )
        return { id: name, fields: { ...fields, targets: [fields.targets, limits] } }
      }),
  },
  {
    noun: 'organization',
    prefix: 'organization ',
    of: ({ organizations }) => organizations.map(({ id, keys: _, ...fields }) => ({ id, fields })),
  },
  { noun: 'key', prefix: 'key ', of: keysOf },
]

/** The sections of the configuration that `kinds` cover. */
const NAMED: readonly (keyof Config)[] = ['providers', 'models', 'organizations', 'capacity']

/** Fields whose key in the file is not their name in another case. */
const FILE_KEYS: Readonly<Record<string, string>> = {
  deadlines: 'timeouts',
  aws: 'credentials',
  identity: 'credentials',
  weights: 'spread',
  sha256: 'secret',
  expiresAtMs: 'expires_at',
}

/** What happened to one thing of the configuration. */
export interface ConfigChange {
  /** `key`, `model`, `provider`, `organization`; `config` for a section of the file and for the order of things. */
  readonly noun: string
  readonly verb: 'created' | 'updated' | 'removed'
  /** The name of the thing, or of the section. */
  readonly target: string
  /** The fields that were updated, as the file has them. */
  readonly fields: readonly string[]
  /** As `weir reload` prints it. */
  readonly lines: readonly string[]
}

/** Empty if and only if the two are equal. */
export function changesOf(current: Config, next: Config): readonly string[] {
  return listChanges(current, next).flatMap(({ lines }) => lines)
}

/** As `changesOf`, with one entry for each thing. */
export function listChanges(current: Config, next: Config): readonly ConfigChange[] {
  const sections = changedFields(sectionsOf(current), sectionsOf(next)).map((field) => sectionChange(field))
  return [...kinds.flatMap((kind) => changesOfKind(kind, kind.of(current), kind.of(next))), ...sections]
}

function sectionChange(target: string): ConfigChange {
  return { noun: 'config', verb: 'updated', target, fields: [], lines: [`~ ${target}`] }
}

function changesOfKind(
  { noun, prefix }: Kind,
  current: readonly Named[],
  next: readonly Named[],
): readonly ConfigChange[] {
  const before = new Map(current.map(({ id, fields }) => [id, fields]))
  const after = new Map(next.map(({ id, fields }) => [id, fields]))
  const kept = (list: readonly Named[]) => list.flatMap(({ id }) => (before.has(id) && after.has(id) ? [id] : []))
  const whole = (verb: 'created' | 'removed', sign: string, target: string): ConfigChange => {
    return { noun, verb, target, fields: [], lines: [`${sign} ${noun} ${target}`] }
  }
  return [
    ...next.flatMap(({ id }) => (before.has(id) ? [] : [whole('created', '+', id)])),
    ...kept(next).flatMap((id): readonly ConfigChange[] => {
      const fields = changedFields(before.get(id) ?? {}, after.get(id) ?? {})
      const lines = fields.map((field) => `~ ${field} of ${prefix}${id}`)
      return fields.length === 0 ? [] : [{ noun, verb: 'updated', target: id, fields, lines }]
    }),
    ...current.flatMap(({ id }) => (after.has(id) ? [] : [whole('removed', '-', id)])),
    ...(Bun.deepEquals(kept(current), kept(next)) ? [] : [sectionChange(`order of ${noun}s`)]),
  ]
}

/** The names of the fields that differ, as the file has them, each once. */
function changedFields(
  current: Readonly<Record<string, unknown>>,
  next: Readonly<Record<string, unknown>>,
): readonly string[] {
  const fields = new Set([...Object.keys(current), ...Object.keys(next)])
  const changed = [...fields].filter((field) => !Bun.deepEquals(current[field], next[field]))
  return [...new Set(changed.map(fileKey))]
}

/** The key of a field as the file has it. */
export function fileKey(field: string): string {
  return FILE_KEYS[field] ?? field.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

/** A key that follows the `auto` of its organisation does not change with it in a line of its own. */
function keysOf({ organizations }: Config): readonly Named[] {
  return organizations.flatMap(({ id: organization, auto, keys }) =>
    keys.map(({ id, ...key }) => ({
      id,
      fields: { ...key, organization, auto: key.auto === auto ? undefined : key.auto },
    })),
  )
}

/** All but what `kinds` cover. */
function sectionsOf(config: Config): Readonly<Record<string, unknown>> {
  const others = Object.entries(config).filter(([name]) => !NAMED.some((other) => other === name))
  return { ...Object.fromEntries(others), queue: config.capacity?.queue }
}
