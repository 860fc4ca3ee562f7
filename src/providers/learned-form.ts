/**
 * What an adapter makes of a rejection that suggests another way to write the requests to a target. A caller must not
 * be able to teach it: errors quote callers, and what one caller teaches holds for all organizations.
 */

import type { BytePieces } from '../core/byte-pieces.ts'
import type { ProviderError } from '../core/provider-error.ts'
import { PerTarget } from './per-target.ts'
import type { Kept, Learned, Provider, Rejection, Target } from './provider.ts'

/** What a rejection suggests. */
export interface Lesson<Form> {
  /** The field that the request must have, or must not. */
  readonly field: string
  readonly change: Partial<Form>
  /** With the flags `gi`: words of the rejection without which it would have suggested nothing. */
  readonly words: RegExp
  /** How often weir itself has written them into the rejected request. */
  readonly own: number
  /** The target will report no usage, so that weir charges its own count. */
  readonly givesUpUsage?: boolean
}

/** A lesson holds for so long at first: the caller of one request may have brought it about. */
const FIRST_TERM_MS = 600_000
/** It holds for good once the old form was rejected and the new one accepted so often. */
const REQUESTS_MIN = 3
const ORGANIZATIONS_MIN = 2

class Evidence<Form> {
  requests = 0
  readonly organizations = new Set<string>()
  sinceMs = 0
  untilMs = 0

  constructor(readonly change: Partial<Form>) {}

  isInForce(nowMs: number): boolean {
    return this.sinceMs <= nowMs && nowMs < this.untilMs
  }

  get isEnough(): boolean {
    return this.requests >= REQUESTS_MIN || this.organizations.size >= ORGANIZATIONS_MIN
  }
}

/** How requests to one target are written, and what was learned about that. */
class KnownForm<Form extends object> {
  form: Form
  /** When the next lesson ends. */
  untilMs = Number.POSITIVE_INFINITY
  private readonly evidence = new Map<string, Evidence<Form>>()

  constructor(readonly base: Form) {
    this.form = base
  }

  /** Whether requests were written so at that time. */
  follows(field: string, atMs: number): boolean {
    return this.evidence.get(field)?.isInForce(atMs) === true
  }

  /** As before the lesson. */
  without(change: Partial<Form>): Form {
    const form = { ...this.form }
    for (const name in change) form[name] = this.base[name]
    return form
  }

  add({ field, change }: Lesson<Form>, organization: string, nowMs: number): Kept | undefined {
    const evidence = this.evidence.get(field) ?? new Evidence(change)
    this.evidence.set(field, evidence)
    if (evidence.untilMs === Number.POSITIVE_INFINITY) return undefined
    const isNew = !evidence.isInForce(nowMs)
    evidence.requests++
    if (evidence.organizations.size < ORGANIZATIONS_MIN) evidence.organizations.add(organization)
    if (isNew) evidence.sinceMs = nowMs
    evidence.untilMs = evidence.isEnough ? Number.POSITIVE_INFINITY : nowMs + FIRST_TERM_MS
    this.update(nowMs)
    if (evidence.isEnough) return 'for good'
    return isNew ? 'for ten minutes' : undefined
  }

  update(nowMs: number): void {
    const inForce = [...this.evidence.values()].filter((each) => each.isInForce(nowMs))
    this.form = Object.assign({ ...this.base }, ...inForce.map(({ change }) => change))
    this.untilMs = Math.min(...inForce.map(({ untilMs }) => untilMs))
  }
}

/** The form of requests to each target: what its address and model imply, and what it has taught. */
export class TargetForms<Form extends object> {
  private readonly known: PerTarget<KnownForm<Form>>

  constructor(
    make: (target: Target) => Form,
    /** Monotonic. */
    private readonly now: () => number = () => performance.now(),
  ) {
    this.known = new PerTarget((target) => new KnownForm(make(target)))
  }

  of(target: Target): Form {
    const known = this.known.of(target)
    if (known.untilMs !== Number.POSITIVE_INFINITY && this.now() >= known.untilMs) known.update(this.now())
    return known.form
  }

  follows(target: Target, { field }: Lesson<Form>, atMs: number): boolean {
    return this.known.of(target).follows(field, atMs)
  }

  without(target: Target, { change }: Lesson<Form>): Form {
    return this.known.of(target).without(change)
  }

  /** The target has rejected the old form and accepted the new one. */
  add(target: Target, lesson: Lesson<Form>, organization: string): Kept | undefined {
    return this.known.of(target).add(lesson, organization, this.now())
  }
}

/** The part of a provider that depends on what is known of a target. */
export type RequestApi<Form extends object> = (forms: Pick<TargetForms<Form>, 'of'>) => Pick<Provider, 'request'>

interface Learning<Form extends object> {
  readonly provider: Provider
  readonly forms: TargetForms<Form>
  readonly api: RequestApi<Form>
  /** Writes the request that is sent next; by default `api`. */
  readonly retryApi?: RequestApi<Form>
}

/**
 * Undefined if the request would be the same, or was written so already. If the caller's own words may be those of the
 * rejection, its request is sent once more, but nothing is kept; a usage is not given up even for that.
 */
export function learnedForm<Form extends object>(
  { provider, forms, api, retryApi = api }: Learning<Form>,
  lesson: Lesson<Form>,
  { error, target, request, organization, sentMs, reportsUsage }: Rejection,
): Learned | undefined {
  const givesUpUsage = lesson.givesUpUsage === true
  if (givesUpUsage && reportsUsage) return undefined
  const isKnown = forms.follows(target, lesson, sentMs)
  const before = isKnown ? forms.of(target) : forms.without(target, lesson)
  const rejected = api({ of: () => before }).request(request, target).body
  const retry = { ...provider, ...retryApi({ of: () => ({ ...before, ...lesson.change }) }) }
  if (bytesOf(retry.request(request, target).body).equals(bytesOf(rejected))) return undefined
  const isQuoted = occurrences(rejected, lesson.words) > lesson.own
  if (isQuoted && givesUpUsage) return undefined
  const keep = () => (isQuoted || isKnown ? undefined : forms.add(target, lesson, organization))
  return { provider: retry, field: lesson.field, seen: error.message, keep }
}

function bytesOf(body: string | BytePieces): Buffer {
  return typeof body === 'string' ? Buffer.from(body) : body.joined()
}

/** A letter of ASCII as an escape of JSON, or of JSON within a string of JSON. */
const ESCAPED_LETTER = /\\+u00([2-7][\da-f])/gi

function occurrences(body: string | BytePieces, words: RegExp): number {
  const json = typeof body === 'string' ? body : body.joined().toString('latin1')
  const text = json.replace(ESCAPED_LETTER, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return text.match(words)?.length ?? 0
}

/** What may come before the name of a field in an error that rejects it; callers write none of it. */
const OPENING_WORDS =
  'a|additional|allowed|argument|arguments|assistant|are|at|bad|bad_request|base64|because|block|body|but|' +
  'call|calls|chatcompletionrequest|code|content|corrupted|decoding|does|enabled|error|errors|extra|' +
  'extra_forbidden|failed|field|fields|for|function|got|in|incorrect|index|input|inputs|invalid|' +
  'invalid_request_error|is|item|items|json|key|keys|keyword|loc|message|messages|missing|mode|model|msg|must|' +
  'name|not|of|option|param|parameter|parameters|parts|passed|payload|permitted|properties|property|received|' +
  'request|required|submit|supplied|supported|the|thinking|this|to|tool|turn|type|unable|unexpected|unknown|' +
  'unrecognized|unsupported|validation|value|was|with'
/** The name of a function, which is the caller's: it is searched for the field, too. */
const FUNCTION_NAME = '`[\\w.:-]{1,128}`'
/** A rejection names its field in its first sentence. */
const OPENING_CHARS_MAX = 1000

/**
 * Whether an error begins with words that reject a field, up to its name: what a server quotes of a caller, or of a
 * page that it fetched, comes after other words. `name` is the source of a pattern.
 */
export function rejecting(name: string): (error: ProviderError) => boolean {
  const opening = `(?:(?:${OPENING_WORDS}|\\d+)(?![\\w-])|${FUNCTION_NAME}|[^\\w<>/]|_)*`
  const pattern = new RegExp(`^${opening}(?:${name})(?![\\w/-]|\\.\\w)`, 'i')
  return ({ kind, message }) => kind === 'rejected' && pattern.test(message.slice(0, OPENING_CHARS_MAX))
}
