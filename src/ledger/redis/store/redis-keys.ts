/** The names of the ledger's keys in Redis. */

/** The set of all organisations that ever reserved, for `weir usage` and other readers of all organisations. */
export const ORGANIZATIONS_KEY = 'weir:organizations'

/**
 * The hash of the days on which each node was last connected. Nodes of earlier versions are not in it, because they
 * cannot compare sums.
 */
export const SEEN_KEY = 'weir:nodes'

/** Held by the node that has just looked for overdue reservations in all organisations. */
export const OVERDUE_TURN_KEY = 'weir:overdue-turn'

/** Held by the node that has just trimmed and measured all organisations, and the fields of the largest one. */
export const UPKEEP_TURN_KEY = 'weir:upkeep-turn'
export const FIELDS_KEY = 'weir:fields'

/** The name of one of an organisation's keys. The id is encoded so that its braces cannot end the hash tag. */
export function redisKey(organization: string, key: string): string {
  return `${tagOf(organization)}:${key}`
}

/** Cached because each call names all keys of one organisation, and a gateway has few organisations. */
const tags = new Map<string, string>()
const TAGS_MAX = 10_000

function tagOf(organization: string): string {
  const known = tags.get(organization)
  if (known !== undefined) return known
  const tag = `weir:{${encodeURIComponent(organization)}}`
  if (tags.size >= TAGS_MAX) tags.clear()
  tags.set(organization, tag)
  return tag
}
