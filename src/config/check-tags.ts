/** Checks of tags beyond the schema: unique names, and no source that is a credential. */

import type { Check } from './check-context.ts'
import { pathText } from './problems.ts'
import type { Loose } from './schema-errors.ts'
import type { File } from './schema-file.ts'

type Tag = NonNullable<Loose<File>['tags']>[number]

/** A value from one of these would show a credential in log lines and reports. */
const CREDENTIALS: ReadonlySet<string> = new Set([
  'authorization',
  'proxy-authorization',
  'x-api-key',
  'api-key',
  'x-goog-api-key',
  'cookie',
])

function tagNameOf(tag: Tag | undefined): string | undefined {
  return typeof tag === 'string' ? tag : tag?.name
}

/** The names of the tags of the configuration; undefined if one is wrong, which may be the one that is meant. */
export function knownTags({ completed: { tags = [] }, problems }: Check): readonly string[] | undefined {
  const names = tags.map(tagNameOf).filter((name) => name !== undefined)
  return names.length < tags.length || tags.some((_, at) => problems.has(['tags', at])) ? undefined : names
}

export function checkTagList({ file, problems }: Check): void {
  const seen = new Map<string, string>()
  file.tags?.forEach((tag, index) => {
    const path = ['tags', index]
    const name = tagNameOf(tag)
    const first = name === undefined ? undefined : seen.get(name)
    if (first !== undefined) problems.add(path, `has the name of ${first}; names are unique`)
    else if (name !== undefined) seen.set(name, pathText(path))
    if (tag === undefined || typeof tag === 'string') return
    tag.from?.forEach((from, at) => {
      if (from === undefined || !CREDENTIALS.has(from.slice('header:'.length).toLowerCase())) return
      problems.add([...path, 'from', at], 'is a header for credentials, which must not be in logs and reports')
    })
  })
}
