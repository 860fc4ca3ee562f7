/**
 * What an adapter makes of a rejection that suggests another way to write the requests to a target. A caller must not
 * be able to teach it: errors quote callers, and what one caller teaches holds for all organizations.
 */

import type { BytePieces } from '../core/byte-pieces.ts'
import type { Endpoint } from '../core/endpoint.ts'
import { ProviderError } from '../core/provider-error.ts'
import { FormStore, type Kept, type LearningTarget } from './form-store.ts'
import type { Learned, Provider, Rejection, Target } from './provider.ts'

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

/** A lesson by its members in order. */
export function makeLesson<Form>(field: string, change: Partial<Form>, words: RegExp, own: number): Lesson<Form> {
  return { field, change, words, own }
}

/** Where the forms of an endpoint's targets are kept, and which entry of the configuration each of its models has. */
interface FormPlace {
  readonly store: FormStore
  readonly entryOf: (model: string) => string
}

const places = new WeakMap<Endpoint, FormPlace>()

/** What is learned of this endpoint's targets is kept in this store. Without a call, the endpoint has its own. */
export function keepForms(endpoint: Endpoint, store: FormStore, entryOf: (model: string) => string): void {
  places.set(endpoint, { store, entryOf })
}

function placeOf(endpoint: Endpoint): FormPlace {
  return places.getOrInsertComputed(endpoint, () => ({ store: new FormStore(), entryOf: () => endpoint.name }))
}

/** How requests to one target are written, and what was learned about that. */
class KnownForm<Form extends object> {
  private readonly store: FormStore
  private readonly target: LearningTarget
  private revision = -1
  /** The store's revision when it last knew that the target reports usage. */
  private usageRevision = -1
  private current: Form
  /** When the next form that was learned ends, in the store's time. */
  private untilMs = Number.POSITIVE_INFINITY

  constructor(
    private readonly base: Form,
    { endpoint, model }: Target,
    private readonly lessonOf: (field: string) => Lesson<Form> | undefined,
  ) {
    const { store, entryOf } = placeOf(endpoint)
    this.store = store
    this.target = { provider: endpoint.name, model, entry: entryOf(model) }
    this.current = base
  }

  get form(): Form {
    const { store } = this
    if (this.revision !== store.revision || (this.untilMs < Number.POSITIVE_INFINITY && store.nowMs() >= this.untilMs))
      this.update()
    return this.current
  }

  /** The fields of all that the target has taught. */
  get learned(): readonly string[] {
    return this.store.of(this.target).map(({ field }) => field)
  }

  get reportsUsage(): boolean {
    return this.store.reportsUsage(this.target)
  }

  /** Whether requests that were sent at that time (`performance.now()`) were written so. */
  follows({ field }: Lesson<Form>, atMs: number): boolean {
    return this.store.wasFollowed(this.target, field, atMs)
  }

  /** As before the lesson. */
  without({ change }: Lesson<Form>): Form {
    const before = { ...this.form }
    for (const name in change) before[name] = this.base[name]
    return before
  }

  /** The target has reported the usage of a stream that asked for it. */
  reportedUsage(): void {
    if (this.usageRevision === this.store.revision) return
    this.store.reportedUsage(this.target)
    this.usageRevision = this.store.revision
  }

  /** The target has rejected the old form and accepted the new one. */
  add(
    { field, givesUpUsage }: Pick<Lesson<Form>, 'field' | 'givesUpUsage'>,
    organization: string,
    seen: string,
  ): Kept | undefined {
    return this.store.add({ ...this.target, field, givesUpUsage, organization, seen })
  }

  private update(): void {
    const known = this.store.of(this.target).filter(({ field }) => this.lessonOf(field) !== undefined)
    this.revision = this.store.revision
    this.current = Object.assign({ ...this.base }, ...known.map(({ field }) => this.lessonOf(field)?.change))
    this.untilMs = Math.min(...known.map(({ untilMs }) => untilMs ?? Number.POSITIVE_INFINITY))
  }
}

/** Models of one endpoint: with a pattern, callers choose their names. */
const MODELS_MAX = 1000

/**
 * The form of requests to each target: what its address and model imply, such as addresses and headers, and what it has
 * taught. Made once for each endpoint and model, and dropped with the endpoint: to find out by patterns which server
 * and model it is, and to write the address, took a fifth of the time of a small request.
 */
export class TargetForms<Form extends object> {
  private readonly known = new WeakMap<Endpoint, Map<string, KnownForm<Form>>>()
  private readonly lessonOf: (field: string) => Lesson<Form> | undefined

  /** `named`: the lessons whose fields have names of callers in them. */
  constructor(
    private readonly make: (target: Target) => Form,
    lessons: readonly Lesson<Form>[],
    named: (field: string) => Lesson<Form> | undefined = () => undefined,
  ) {
    const byField = new Map(lessons.map((lesson) => [lesson.field, lesson]))
    this.lessonOf = (field) => byField.get(field) ?? named(field)
  }

  of(target: Target): Form {
    return this.at(target).form
  }

  /** The form with how it came about. */
  at(target: Target): KnownForm<Form> {
    let models = this.known.get(target.endpoint)
    if (models === undefined) {
      models = new Map()
      this.known.set(target.endpoint, models)
    }
    const key = target.api === undefined ? target.model : `${target.api} ${target.model}`
    let known = models.get(key)
    if (known === undefined) {
      known = new KnownForm(this.make(target), target, this.lessonOf)
      if (models.size >= MODELS_MAX) models.clear()
      models.set(key, known)
    }
    return known
  }
}

/** The part of a provider that depends on what is known of a target. */
export type RequestApi<Form extends object> = (
  forms: Pick<TargetForms<Form>, 'of'>,
) => Pick<Provider, 'request' | 'leastOutput' | 'thoughtForm' | 'ownForm'>

/** What an adapter learns with. */
export interface FormLearning<Form extends object> {
  readonly forms: TargetForms<Form>
  readonly api: RequestApi<Form>
  /** The lesson of a rejection; undefined if it shows nothing about how the request is written. */
  readonly lessonOf: (rejection: Rejection, form: Form) => Lesson<Form> | undefined
  /** Writes the request that is sent next; by default `api`. */
  readonly retryApi?: RequestApi<Form>
}

/** Learns from the rejection of a request that a provider wrote. */
type Learn<Form extends object> = (
  learning: FormLearning<Form>,
  rejection: Rejection,
  provider: Provider,
) => Learned | undefined

/** A provider whose requests depend on what it has learned, by `by`. `others`: its other members. */
export function learningProvider<Form extends object>(
  learning: FormLearning<Form>,
  others: Omit<Provider, 'request' | 'learn'>,
  by: Learn<Form> = learn,
): Provider {
  const provider: Provider = {
    ...others,
    ...learning.api(learning.forms),
    learn: (rejection) => by(learning, rejection, provider),
  }
  return provider
}

/**
 * What a rejection teaches. Undefined if the request would be the same, or was written so already. If the caller's own
 * words may be those of the rejection, its request is sent once more, but nothing is kept; a usage is not given up even
 * for that.
 */
export function learn<Form extends object>(
  learning: FormLearning<Form>,
  rejection: Rejection,
  provider: Provider,
): Learned | undefined {
  const known = learning.forms.at(rejection.target)
  const lesson = learning.lessonOf(rejection, known.form)
  if (lesson === undefined) return undefined
  const isKnown = known.follows(lesson, rejection.sentMs)
  const before = isKnown ? known.form : known.without(lesson)
  return learnFrom(learning, lesson, rejection, { provider, before, isKnown })
}

/** What the rejection of a request in the form `before` teaches on top of `first`. */
export function learnMore<Form extends object>(
  learning: FormLearning<Form>,
  rejection: Rejection,
  before: Form,
  first: Learned,
): Learned | undefined {
  const lesson = learning.lessonOf(rejection, before)
  if (lesson === undefined || lesson.field === first.field) return undefined
  return learnFrom(learning, lesson, rejection, { provider: first.provider, before, isKnown: false, first })
}

/** What a request was written by. */
interface Writing<Form> {
  readonly provider: Provider
  readonly before: Form
  /** It follows the lesson already. */
  readonly isKnown: boolean
  readonly first?: Learned
}

function learnFrom<Form extends object>(
  learning: FormLearning<Form>,
  lesson: Lesson<Form>,
  { error, target, request, organization }: Rejection,
  { provider, before, isKnown, first }: Writing<Form>,
): Learned | undefined {
  const { forms, api, retryApi = api } = learning
  const known = forms.at(target)
  const givesUpUsage = lesson.givesUpUsage === true
  if (givesUpUsage && known.reportsUsage) return undefined
  const rejected = api({ of: () => before }).request(request, target).body
  const after = { ...before, ...lesson.change }
  const retry = { ...provider, ...retryApi({ of: () => after }) }
  if (writesSame(retry, { request, target }, rejected)) return undefined
  const isQuoted = occurrences(rejected, lesson.words) > lesson.own
  if (isQuoted && givesUpUsage) return undefined
  const learned: Learned = {
    ...{ field: lesson.field, seen: error.message, first },
    keep: () => (isQuoted || isKnown ? undefined : known.add(lesson, organization, error.message)),
    // What the server rejects in this form comes on top of it.
    provider: { ...retry, learn: (rejection) => learnMore(learning, rejection, after, learned) },
  }
  return learned
}

/** False also if the new form cannot express the request: then it is sent to the next candidate. */
function writesSame(
  provider: Pick<Provider, 'request'>,
  { request, target }: Pick<Rejection, 'request' | 'target'>,
  rejected: string | BytePieces,
): boolean {
  try {
    return bytesOf(provider.request(request, target).body).equals(bytesOf(rejected))
  } catch (error) {
    if (error instanceof ProviderError && error.detail.unsent === true) return false
    throw error
  }
}

function bytesOf(body: string | BytePieces): Buffer {
  return typeof body === 'string' ? Buffer.from(body) : body.joined()
}

/** A letter of ASCII as an escape of JSON, or of JSON within a string of JSON. */
const ESCAPED_LETTER = /\\+u00([2-7][\da-f])/gi
const ESCAPED_SLASH = /\\+\//g

/** How often words are in a body, also if its letters are escaped. */
export function occurrences(body: string | BytePieces, words: RegExp): number {
  const json = typeof body === 'string' ? body : body.joined().toString('latin1')
  const letters = json.replace(ESCAPED_LETTER, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  const text = letters.replace(ESCAPED_SLASH, '/')
  return text.match(words)?.length ?? 0
}

/** What may come before the name of a field in an error that rejects it; callers write none of it. */
const OPENING_WORDS =
  'a|additional|allowed|argument|arguments|assistant|are|at|bad|bad_request|base64|because|block|body|but|call|calls|' +
  'chatcompletionrequest|code|content|corrupted|decoding|does|enabled|enum|error|errors|extra|extra_forbidden|failed|' +
  'field|fields|for|function|got|in|incorrect|index|input|inputs|invalid|invalid_request_error|is|item|items|json|' +
  'key|keys|keyword|literal_error|loc|message|messages|missing|mode|model|msg|must|name|not|of|option|param|' +
  'parameter|parameters|parts|passed|payload|permitted|properties|property|received|request|required|submit|supplied|' +
  'supported|the|thinking|this|to|tool|turn|type|unable|unexpected|unknown|unrecognized|unsupported|validation|value|' +
  'was|with'
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
