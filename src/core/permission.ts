/**
 * Which models a key may use: the organisation's models, its rules and the key's own models must all allow a model. The
 * catalog and the check of the configuration share this function, so that they always agree.
 */

/** One rule of an organisation. In a glob, `*` is any run of characters and `?` any one character. */
export interface AccessRule {
  readonly effect: 'allow' | 'deny'
  /** Globs over public names. */
  readonly models: readonly string[]
  /** Globs over key ids; absent = all keys. */
  readonly keys?: readonly string[] | undefined
}

interface OrganizationAccess {
  /** Globs over public names; absent = all. */
  readonly models?: readonly string[] | undefined
  /** The first that matches decides; none = allowed. */
  readonly rules: readonly AccessRule[]
}

interface KeyAccess {
  /** Absent for a key that no rule names by its id: only rules for all keys apply to it. */
  readonly id?: string | undefined
  readonly models?: readonly string[] | undefined
}

/** The decision and its cause. `rule` is the index of the organisation's rule that matched, if one did. */
export type Verdict =
  | { readonly allowed: true; readonly rule?: number | undefined }
  | { readonly allowed: false; readonly by: 'organization' | 'key' }
  | { readonly allowed: false; readonly by: 'rule'; readonly rule: number }

/** Decides about one model for one key. The first rule that matches decides for the rules. */
export function judge(organization: OrganizationAccess, key: KeyAccess, model: string): Verdict {
  if (organization.models !== undefined && !matchesAny(organization.models, model)) {
    return { allowed: false, by: 'organization' }
  }
  const rule = organization.rules.findIndex((candidate) => applies(candidate, key, model))
  if (organization.rules[rule]?.effect === 'deny') return { allowed: false, by: 'rule', rule }
  if (key.models !== undefined && !matchesAny(key.models, model)) return { allowed: false, by: 'key' }
  return rule < 0 ? { allowed: true } : { allowed: true, rule }
}

function applies(rule: AccessRule, key: KeyAccess, model: string): boolean {
  return matchesAny(rule.models, model) && (rule.keys === undefined || namesKey(rule.keys, key))
}

function namesKey(globs: readonly string[], key: KeyAccess): boolean {
  return key.id === undefined ? globs.includes('*') : matchesAny(globs, key.id)
}

function matchesAny(globs: readonly string[], name: string): boolean {
  return globs.some((glob) => matches(glob, name))
}

/** Whether a glob matches a public name, or may match one of those that a pattern (`anthropic/*`) stands for. */
export function mayMatch(glob: string, name: string): boolean {
  if (matches(glob, name)) return true
  if (!name.endsWith('*')) return false
  const [prefix, begin] = [name.slice(0, -1), /^[^*?]*/.exec(glob)?.[0] ?? '']
  return begin.startsWith(prefix) || (begin.length < glob.length && prefix.startsWith(begin))
}

/**
 * True if the glob matches the whole name; case matters. It backtracks only to the last `*`, so the cost is at most the
 * product of the two lengths; a regular expression made from `*a*a*a*` would take exponential time.
 */
export function matches(glob: string, name: string): boolean {
  let at = 0
  let star = -1
  let resume = 0
  let i = 0
  while (i < name.length) {
    if (glob[at] === '*') {
      star = at++
      resume = i
    } else if (glob[at] === '?' || (at < glob.length && glob[at] === name[i])) {
      at++
      i++
    } else if (star >= 0) {
      at = star + 1
      i = ++resume
    } else {
      return false
    }
  }
  while (glob[at] === '*') at++
  return at === glob.length
}
