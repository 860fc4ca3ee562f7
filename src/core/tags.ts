/**
 * Tags of a request as one text: `project=checkout,team=payments`, in the order of their names; '' for none. Neither
 * names nor values contain an equals sign or a comma.
 */

/** Where the values of a tag come from, and what becomes of them. */
export interface TagRule {
  /** `header:NAME`, or `user`: the body's. The first with a value decides. */
  readonly from: readonly string[]
  /** A request without it is rejected. */
  readonly required: boolean
  /** Whether reports sum up by it. */
  readonly counted: boolean
}

/** How many tags a request may name, and a key may have. */
export const TAGS_MAX = 8

/** Stands for the tags of a request that a version of weir without tags logged. */
const EARLIER = '-'

/** What stands in front of the tags of a request that count under `OTHER_TAGS`. */
const UNCOUNTED = '~'

/** The value of every tag in sums of requests whose combination of tags has no sum of its own. */
const OTHER_TAGS = '(other)'

/** The tags of a row or record, which lacks them if an earlier version wrote it. */
export function storedTags(stored: unknown): string {
  return typeof stored === 'string' ? stored : EARLIER
}

/** What stands in front of the service tier, as a last tag: no tag has this name. */
const TIER = '!='

/** The tags under which a request is summed up; undefined if an earlier version logged it. */
export function countedTags(tags: string): string | undefined {
  if (tags === '') return tags
  if (tags === EARLIER) return undefined
  return tags.startsWith(UNCOUNTED) ? withTier(OTHER_TAGS, tierOfTags(tags)) : tags
}

/** The tags of a request that counts under `OTHER_TAGS`. */
export function uncountedTags(tags: string): string {
  return UNCOUNTED + tags
}

/** The texts that `tagsByName` has read, because many requests have the same; all are forgotten at this number. */
const read = new Map<string, Readonly<Record<string, string>>>()
const READ_MAX = 1000

/** True for the tags of a sum of requests whose combinations of tags have no sums of their own. */
export function isOtherTags(tags: string): boolean {
  return tags.startsWith(OTHER_TAGS)
}

/** The values of tags by their names. */
export function tagsByName(tags: string): Readonly<Record<string, string>> {
  const known = read.get(tags)
  if (known !== undefined) return known
  const pairs = tags.startsWith(UNCOUNTED) ? tags.slice(UNCOUNTED.length) : tags
  const found = Object.fromEntries(
    pairs.split(',').flatMap((pair) => {
      const at = pair.indexOf('=')
      return at < 0 || pair.startsWith(TIER) ? [] : [[pair.slice(0, at), pair.slice(at + 1)]]
    }),
  )
  if (read.size >= READ_MAX) read.clear()
  read.set(tags, found)
  return found
}

/**
 * The tags with the service tier of their request, if there is one. Stores keep both as one text: an earlier version
 * passes on a tag whose name it does not know, so that two versions make the same sums of a request.
 */
export function withTier(tags: string, tier: string): string {
  if (tier === '') return tags
  if (tags !== last.tags || tier !== last.tier)
    last = { tags, tier, text: tags === '' ? TIER + tier : `${tags},${TIER}${tier}` }
  return last.text
}

/** The last text that was made: most requests in a row have the same, and each is compared with the one before. */
let last = { tags: '', tier: '', text: '' }

/** The service tier that `withTier` added; '' if there is none. */
export function tierOfTags(tags: string): string {
  if (tags === last.text) return last.tier
  const at = tags.lastIndexOf(TIER)
  return at < 0 ? '' : tags.slice(at + TIER.length)
}

/** The text of tags. */
export function tagsText(tags: Iterable<readonly [name: string, value: string]>): string {
  const pairs = [...tags].sort(([one], [other]) => (one < other ? -1 : 1))
  return pairs.map(([name, value]) => `${name}=${value}`).join(',')
}

/** The value of one tag in a sum; '' if its requests do not have it. */
export function tagValue(tags: string, name: string): string {
  if (isOtherTags(tags)) return OTHER_TAGS
  const values = tagsByName(tags)
  // A name such as `constructor` is a property of every object.
  return Object.hasOwn(values, name) ? (values[name] ?? '') : ''
}
