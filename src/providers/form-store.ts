/**
 * What targets have taught about how requests to them are written, and the evidence for it. Every process of a gateway
 * has one: workers learn, the supervisor keeps what outlives them, and nodes share it over Redis.
 */

import { isArray, isObject, type JsonValue, numberOf, stringOf } from '../core/json.ts'

/** A form is kept for so long at first: the caller of one request may have brought it about. */
const FIRST_TERM_MS = 600_000
/** It is kept for good once the old form was rejected and the new one accepted so often. */
const REQUESTS_MIN = 3
const ORGANIZATIONS_MIN = 2
/** With a pattern, callers choose the names of models. The oldest forms are dropped first. */
export const FORMS_MAX = 2000
/** What is kept of the message of a rejection. */
const SEEN_CHARS_MAX = 300

/** Not the name of a field: the target has reported the usage of a stream that asked for it. */
const REPORTS_USAGE = 'usage'

/** A target whose entry in the configuration is known. */
export interface LearningTarget {
  readonly provider: string
  /** As the provider is asked for it. */
  readonly model: string
  /** Differs after a change of the target's entry: what was learned before does not count any more. */
  readonly entry: string
}

/** One field that a target wants, or does not. Plain data, for other processes and files. */
export interface LearnedForm extends LearningTarget {
  readonly field: string
  readonly givesUpUsage?: boolean | undefined
  readonly requests: number
  /** At most as many as matter. */
  readonly organizations: readonly string[]
  /** Unix milliseconds. */
  readonly learnedMs: number
  /** Null: for good. */
  readonly untilMs: number | null
  /** The beginning of the message that the target rejected the old form with. */
  readonly seen: string
}

/** One request whose old form the target has rejected, and whose new form it has accepted. */
export interface FormEvidence extends LearningTarget {
  readonly field: string
  readonly givesUpUsage?: boolean | undefined
  readonly organization: string
  readonly seen: string
}

/** What changed: forms that are new, and the keys of those that are forgotten. */
export interface FormNews {
  readonly forms: readonly LearnedForm[]
  readonly forgotten: readonly string[]
}

/** How long a form that was learned is kept. */
export type Kept = 'for ten minutes' | 'for good'

/** Unix milliseconds that no change of the machine's clock moves while the process runs. */
function steadyMs(): number {
  return performance.timeOrigin + performance.now()
}

/** The form with one more request; undefined if it is kept for good already. */
export function withEvidence(
  known: LearnedForm | undefined,
  evidence: FormEvidence,
  nowMs: number,
): LearnedForm | undefined {
  if (known?.untilMs === null) return undefined
  const { provider, model, entry, field, givesUpUsage, organization, seen } = evidence
  const organizations = [...new Set([...(known?.organizations ?? []), organization])].slice(0, ORGANIZATIONS_MIN)
  const requests = (known?.requests ?? 0) + 1
  const isEnough = requests >= REQUESTS_MIN || organizations.length >= ORGANIZATIONS_MIN || field === REPORTS_USAGE
  const learnedMs = known !== undefined && isInForce(known, nowMs) ? known.learnedMs : nowMs
  const untilMs = isEnough ? null : nowMs + FIRST_TERM_MS
  const text = seen.slice(0, SEEN_CHARS_MAX)
  return { provider, model, entry, field, givesUpUsage, requests, organizations, learnedMs, untilMs, seen: text }
}

function isInForce({ untilMs }: LearnedForm, nowMs: number): boolean {
  return untilMs === null || nowMs < untilMs
}

/** Of two processes: the one with more evidence. */
function better(one: LearnedForm, other: LearnedForm | undefined): boolean {
  if (other === undefined || one.untilMs === null) return true
  return other.untilMs !== null && (one.requests > other.requests || one.untilMs >= other.untilMs)
}

/** A form of another process or of a file, which another version may have written; undefined if it is none. */
export function parseForm(value: unknown): LearnedForm | undefined {
  if (!isObject(value)) return undefined
  const [provider, model, entry] = [stringOf(value['provider']), stringOf(value['model']), stringOf(value['entry'])]
  const [field, seen, requests] = [stringOf(value['field']), stringOf(value['seen']), numberOf(value['requests'])]
  const [learnedMs, untilMs] = [numberOf(value['learnedMs']), value['untilMs']]
  if (provider === undefined || model === undefined || entry === undefined || field === undefined) return undefined
  if (seen === undefined || requests === undefined || learnedMs === undefined) return undefined
  if (untilMs !== null && typeof untilMs !== 'number') return undefined
  const organizations = textsIn(value['organizations'])
  const givesUpUsage = value['givesUpUsage'] === true ? true : undefined
  return { provider, model, entry, field, givesUpUsage, requests, organizations, learnedMs, untilMs, seen }
}

function textsIn(value: JsonValue | undefined): readonly string[] {
  return isArray(value) ? value.filter((each) => typeof each === 'string').slice(0, ORGANIZATIONS_MIN) : []
}

/** Names one form among all. */
export function formKey({ entry, model, field }: Pick<LearnedForm, 'entry' | 'model' | 'field'>): string {
  return `${entry} ${field} ${model}`
}

function placeOf({ entry, model }: LearningTarget): string {
  return `${entry} ${model}`
}

export class FormStore {
  /** Rises with every change. */
  revision = 0
  private readonly byTarget = new Map<string, Map<string, LearnedForm>>()
  /** When this process began to follow a form (`performance.now()`). */
  private readonly since = new Map<string, number>()

  constructor(
    /** Takes what the other processes should count, too. */
    private readonly publish: (evidence: FormEvidence) => void = () => {},
    readonly nowMs: () => number = steadyMs,
  ) {}

  /** The forms of a target that hold now, the oldest first. */
  of(target: LearningTarget): readonly LearnedForm[] {
    const forms = this.byTarget.get(placeOf(target))
    if (forms === undefined) return []
    const reports = forms.has(REPORTS_USAGE)
    const nowMs = this.nowMs()
    return [...forms.values()]
      .filter((form) => form.field !== REPORTS_USAGE && isInForce(form, nowMs))
      .filter(({ givesUpUsage }) => !(reports && givesUpUsage === true))
      .sort((one, other) => one.learnedMs - other.learnedMs)
  }

  /** Whether requests that were sent at that time (`performance.now()`) followed a form. */
  wasFollowed(target: LearningTarget, field: string, atMs: number): boolean {
    const { entry, model } = target
    const isNow = this.of(target).some((form) => form.field === field)
    return isNow && (this.since.get(formKey({ entry, model, field })) ?? 0) <= atMs
  }

  /** Everything that is known, for other processes and the file. */
  all(): readonly LearnedForm[] {
    return [...this.byTarget.values()].flatMap((forms) => [...forms.values()])
  }

  /** Of a target of the configuration; of all models of a pattern. For the operator. */
  ofConfigured(isMeant: (target: LearningTarget) => boolean): readonly LearnedForm[] {
    const targets = new Map(this.all().map((form) => [placeOf(form), form]))
    return [...targets.values()].filter(isMeant).flatMap((target) => this.of(target))
  }

  /** A request in the new form was accepted. Undefined if that changes nothing. */
  add(evidence: FormEvidence): Kept | undefined {
    const wasInForce = this.of(evidence).some(({ field }) => field === evidence.field)
    const form = this.count(evidence)
    if (form === undefined) return undefined
    this.publish(evidence)
    if (form.untilMs === null) return 'for good'
    return wasInForce ? undefined : 'for ten minutes'
  }

  /** As `add`, for what another process has published. Returns what is known then. */
  count(evidence: FormEvidence): LearnedForm | undefined {
    const known = this.byTarget.get(placeOf(evidence))?.get(evidence.field)
    const form = withEvidence(known, evidence, this.nowMs())
    if (form !== undefined) this.put(form)
    return form
  }

  /** The target has reported the usage of a stream that asked for it: that is never given up. */
  reportedUsage(target: LearningTarget): void {
    if (this.reportsUsage(target)) return
    const { provider, model, entry } = target
    this.add({ provider, model, entry, field: REPORTS_USAGE, organization: '', seen: '' })
  }

  reportsUsage(target: LearningTarget): boolean {
    return this.byTarget.get(placeOf(target))?.has(REPORTS_USAGE) === true
  }

  /** Takes what other processes know. Returns what was new. */
  receive(forms: readonly LearnedForm[]): readonly LearnedForm[] {
    const fresh = forms.filter((form) => {
      const known = this.byTarget.get(placeOf(form))?.get(form.field)
      return !Bun.deepEquals(known, form) && better(form, known)
    })
    for (const form of fresh) this.put(form)
    return fresh
  }

  /** Drops all that are meant, and returns them. */
  forget(isMeant: (form: LearnedForm) => boolean): readonly LearnedForm[] {
    const meant = this.all().filter(isMeant)
    for (const form of meant) this.drop(form)
    return meant
  }

  private put(form: LearnedForm): void {
    const forms = this.byTarget.getOrInsertComputed(placeOf(form), () => new Map())
    const known = forms.get(form.field)
    if (known === undefined || !isInForce(known, this.nowMs())) this.since.set(formKey(form), performance.now())
    forms.set(form.field, form)
    this.revision++
    if (this.since.size > FORMS_MAX) this.makeRoom()
  }

  /** Drops a tenth, those first that end, so that this happens rarely. */
  private makeRoom(): void {
    const terms = [...this.all()].sort((one, other) => rank(one) - rank(other))
    for (const form of terms.slice(0, FORMS_MAX / 10)) this.drop(form)
  }

  private drop(form: LearnedForm): void {
    const forms = this.byTarget.get(placeOf(form))
    if (forms?.delete(form.field) !== true) return
    this.since.delete(formKey(form))
    this.revision++
    if (forms.size === 0) this.byTarget.delete(placeOf(form))
  }
}

/** A form that is kept for ten minutes goes before one that is kept for good. */
function rank({ untilMs, learnedMs }: LearnedForm): number {
  return untilMs === null ? learnedMs : learnedMs - Number.MAX_SAFE_INTEGER / 2
}
