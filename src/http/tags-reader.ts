/**
 * The tags of a request: from `X-Gateway-Tags: project=checkout,team=payments`, from other headers and the field of the
 * body that names the caller's own user, as `tags` of the configuration has it, and from the key.
 */

import type { Key } from '../catalog/catalog.ts'
import { CallerError } from '../core/caller-error.ts'
import { beginningOf } from '../core/error-message.ts'
import { legalTagValue, TAG_VALUE } from '../core/tag-value.ts'
import { TAGS_MAX, type TagRule, tagsByName, tagsText } from '../core/tags.ts'

export const TAGS_HEADER = 'X-Gateway-Tags'

const VALUE = new RegExp(TAG_VALUE)
/** The longest part of a header that an error repeats. */
const SHOWN_CHARS = 64

/** Texts as in `core/tags.ts`. */
interface ReadTags {
  readonly all: string
  /** Those that reports sum up by. */
  readonly counted: string
}

const NONE: ReadTags = { all: '', counted: '' }

/** Reads the tags of requests, for one configuration. */
export class TagsReader {
  /** Whether a tag may come from the body. */
  readonly readsUser: boolean
  private readonly names: ReadonlySet<string>
  private readonly required: readonly (readonly [name: string, rule: TagRule])[]
  private readonly sourced: readonly (readonly [name: string, rule: TagRule])[]
  private readonly uncounted: ReadonlySet<string>
  /** Most requests have the tags of their key alone. */
  private readonly ofKeys = new WeakMap<Key, ReadTags>()

  /** `names`: those of `tags` in the configuration. `rules`: of those that have some, by name. */
  constructor(names: readonly string[], rules: Readonly<Record<string, TagRule>>) {
    this.names = new Set(names)
    const all = Object.entries(rules)
    this.required = all.filter(([, { required }]) => required)
    this.sourced = all.filter(([, { from }]) => from.length > 0)
    this.uncounted = new Set(all.flatMap(([name, { counted }]) => (counted ? [] : [name])))
    this.readsUser = this.sourced.some(([, { from }]) => from.includes('user'))
  }

  /**
   * The tags that a key fixes, then those of `X-Gateway-Tags`, then what the sources of a tag have, then the key's own.
   * `user`: what the body calls the caller's user. Throws `CallerError` `invalid_tags`.
   */
  read(headers: Headers, key: Key, user: string | undefined): ReadTags {
    const header = headers.get(TAGS_HEADER)?.trim() ?? ''
    if (header === '' && this.sourced.length === 0) return this.ofKey(key)
    const tags = this.sound(key.tags)
    for (const [name, { from }] of this.sourced) {
      const value = sourceValue(from, headers, user)
      if (value !== undefined) tags.set(name, value)
    }
    if (header !== '') this.addNamed(header, tags)
    return this.textsOf(tags, key)
  }

  /** Throws `CallerError` `missing_tag` if one that every request must have is not among `all`. */
  requireAll(all: string): void {
    if (this.required.length === 0) return
    const tags = tagsByName(all)
    const missing = this.required.find(([name]) => !Object.hasOwn(tags, name))
    if (missing === undefined) return
    const [name, { from }] = missing
    const sources = from.map((source) => (source === 'user' ? "the field 'user'" : `the header ${headerOf(source)}`))
    const also = sources.length === 0 ? '' : ` or ${sources.join(' or ')}`
    const message = `The tag '${name}' is missing. Send it in the header ${TAGS_HEADER}: ${name}=VALUE${also}.`
    throw new CallerError('missing_tag', message, { param: TAGS_HEADER })
  }

  private addNamed(header: string, tags: Map<string, string>): void {
    const named = new Set<string>()
    const pairs = header.split(',')
    if (pairs.length > TAGS_MAX) throw invalid(`it has ${pairs.length} tags, and at most ${TAGS_MAX} are allowed`)
    for (const pair of pairs) {
      const at = pair.indexOf('=')
      if (at < 0) throw invalid(`${shown(pair)} is not NAME=VALUE`)
      const [name, value] = [pair.slice(0, at).trim(), pair.slice(at + 1).trim()]
      if (!this.names.has(name)) throw invalid(`${shown(name)} is not one of the tags ${[...this.names].join(', ')}`)
      if (named.has(name)) throw invalid(`${shown(name)} is there twice`)
      if (!VALUE.test(value)) throw invalid(`the value of ${shown(name)} must be 1 to 64 of A-Z a-z 0-9 . _ / @ : -`)
      named.add(name)
      tags.set(name, value)
    }
  }

  private ofKey(key: Key): ReadTags {
    if (key.tags === undefined && key.fixedTags === undefined) return NONE
    return this.ofKeys.getOrInsertComputed(key, () => this.textsOf(this.sound(key.tags), key))
  }

  private textsOf(tags: Map<string, string>, { fixedTags }: Key): ReadTags {
    for (const [name, value] of this.sound(fixedTags)) tags.set(name, value)
    const all = tagsText(tags)
    if (this.uncounted.size === 0) return { all, counted: all }
    return { all, counted: tagsText([...tags].filter(([name]) => !this.uncounted.has(name))) }
  }

  /** Those of a key with a name that the configuration still has. */
  private sound(tags: Key['tags'] = {}): Map<string, string> {
    return new Map(Object.entries(tags).filter(([name, value]) => this.names.has(name) && VALUE.test(value)))
  }
}

/** The first source that has a value. */
function sourceValue(from: TagRule['from'], headers: Headers, user: string | undefined): string | undefined {
  for (const source of from) {
    const isHeader = source !== 'user'
    const value = isHeader ? headers.get(headerOf(source)) : user?.trim()
    // The characters of a header are its bytes, so that the same name in both places is one value.
    if (value != null && value !== '') return legalTagValue(value, isHeader ? 'latin1' : 'utf8')
  }
  return undefined
}

function headerOf(source: string): string {
  return source.slice('header:'.length)
}

function invalid(what: string): CallerError {
  return new CallerError('invalid_tags', `The header ${TAGS_HEADER} is invalid: ${what}.`, { param: TAGS_HEADER })
}

function shown(text: string): string {
  return `'${beginningOf(text.trim(), SHOWN_CHARS)}'`
}
