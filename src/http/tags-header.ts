/** `X-Gateway-Tags: project=checkout,team=payments` → the tags of a request. */

import type { Key } from '../catalog/catalog.ts'
import { CallerError } from '../core/caller-error.ts'
import { TAG_VALUE, TAGS_MAX, tagsText } from '../core/tags.ts'

export const TAGS_HEADER = 'X-Gateway-Tags'

const VALUE = new RegExp(TAG_VALUE)
/** The longest part of a header that an error repeats. */
const SHOWN_CHARS = 64

/** Reads the tags of requests, for one configuration. */
export class TagsReader {
  private readonly names: ReadonlySet<string>
  /** Most requests have the tags of their key alone. */
  private readonly ofKeys = new WeakMap<Key, string>()

  /** `names`: those of `tags` in the configuration. */
  constructor(names: readonly string[]) {
    this.names = new Set(names)
  }

  /**
   * The tags of the header, and those of the key for names that the header lacks. `header` is null without one. Throws
   * `CallerError` `invalid_tags`.
   */
  read(header: string | null, key: Key): string {
    if (header === null || header.trim() === '') return this.ofKey(key)
    const tags = this.own(key)
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
    return tagsText(tags)
  }

  private ofKey(key: Key): string {
    if (key.tags === undefined) return ''
    let text = this.ofKeys.get(key)
    if (text === undefined) {
      text = tagsText(this.own(key))
      this.ofKeys.set(key, text)
    }
    return text
  }

  /** Those of a key with a name that the configuration still has. */
  private own({ tags = {} }: Key): Map<string, string> {
    return new Map(Object.entries(tags).filter(([name, value]) => this.names.has(name) && VALUE.test(value)))
  }
}

function invalid(what: string): CallerError {
  return new CallerError('invalid_tags', `The header ${TAGS_HEADER} is invalid: ${what}.`, { param: TAGS_HEADER })
}

function shown(text: string): string {
  const trimmed = text.trim()
  return `'${trimmed.length > SHOWN_CHARS ? `${trimmed.slice(0, SHOWN_CHARS)}…` : trimmed}'`
}
