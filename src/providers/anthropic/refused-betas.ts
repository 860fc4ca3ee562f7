/**
 * Betas of Anthropic that a target refuses. Its errors name them, or none; then halves of them are left out until it
 * takes the rest. A beta goes with the fields that it is for: those are left out with it.
 */

import type { ChatRequest } from '../../core/chat-request.ts'
import { withoutMembers } from '../../core/json.ts'
import type { OwnFields } from '../../core/own-fields.ts'
import type { ProviderError } from '../../core/provider-error.ts'
import type { Kept } from '../form-store.ts'
import {
  type FormLearning,
  type Lesson,
  learn,
  learningProvider,
  learnMore,
  occurrences,
  rejecting,
  type TargetForms,
} from '../learned-form.ts'
import type { Acceptance, Learned, Provider, Rejection } from '../provider.ts'
import type { TakenRequest } from '../taken-request.ts'

/** What a target refuses, as it has taught it: betas, and members of the body. */
export interface BetaForm {
  readonly [refused: `no ${string}`]: true | undefined
}

/** The members that betas are for, by the names of the betas without their dates. */
const MEMBERS_OF: Readonly<Record<string, readonly string[]>> = {
  'context-management': ['context_management'],
  compact: ['context_management'],
  'mcp-client': ['mcp_servers'],
  skills: ['container'],
  'code-execution': ['container'],
  'files-api': ['container'],
  'fast-mode': ['speed'],
}
/** The tools that betas are for. */
const TOOLS_OF: Readonly<Record<string, RegExp>> = {
  'mcp-client': /^mcp/,
  'code-execution': /^code_execution/,
  'web-fetch': /^web_fetch/,
  'computer-use': /^computer/,
  'tool-search-tool': /^tool_search/,
  'advanced-tool-use': /^tool_search/,
}
/** Betas that members of tools are for. */
const OF_TOOL_MEMBERS = /^(?:tool-search-tool|advanced-tool-use|tool-examples|fine-grained-tool-streaming)-/
const TOOL_MEMBERS = '(?:custom\\.)?(?:defer_loading|eager_input_streaming|input_examples|allowed_callers)'
const DATE = /-\d{4}-\d{2}-\d{2}$/

/** More betas at once are left out by thirds: each takes a further request, and a refusal may cost four. */
const HALVED_MAX = 8
/** What is learned of betas of one target. */
const LEARNED_MAX = 64

const ONE = 'anthropic-beta '
const MEMBER = 'member '
const TOOL_MEMBER = 'members of tools'

/** The lesson that a field of the store stands for. `ONE` has a group of betas, of which at least one is refused. */
export function betaLesson(field: string): Lesson<BetaForm> | undefined {
  const change: BetaForm = { [`no ${field}`]: true as const }
  // Nothing of a caller comes before the place in its tools.
  if (field === TOOL_MEMBER) return { field, change, words: /(?!)/gi, own: 0 }
  if (field.startsWith(MEMBER)) return { field, change, words: wordsOf(field.slice(MEMBER.length)), own: 1 }
  if (!field.startsWith(ONE)) return undefined
  return { field, change, words: wordsOf(...betasIn(field)), own: 0 }
}

/** The betas of a field that begins with `ONE`. */
function betasIn(field: string): readonly string[] {
  return field.slice(ONE.length).split(',')
}

function wordsOf(...names: readonly string[]): RegExp {
  return new RegExp(names.map((name) => name.replaceAll('.', '\\.')).join('|'), 'gi')
}

/** The groups of betas that are known; of one whose part was learned later, that part alone. */
function groupsIn(form: BetaForm): readonly (readonly string[])[] {
  const opening = `no ${ONE}`
  const groups = Object.keys(form).flatMap((name) =>
    name.startsWith(opening) ? [betasIn(name.slice('no '.length))] : [],
  )
  const isPart = (one: readonly string[], of: readonly string[]) =>
    one.length < of.length && one.every((beta) => of.includes(beta))
  return groups.filter((group) => !groups.some((other) => isPart(other, group)))
}

/**
 * The betas that are left out of a request to this target. The last of a group comes back: if it is the bad one, that
 * costs one further request, and if it is not, the group has lost it. So each group costs one such request at most.
 */
function refusedBy(form: BetaForm): ReadonlySet<string> {
  return new Set(groupsIn(form).flatMap(suspected))
}

function suspected(group: readonly string[]): readonly string[] {
  return group.length > 1 ? group.slice(0, -1) : group
}

/** The request without what the target refuses of betas. */
export function withoutRefused(request: ChatRequest, form: BetaForm): TakenRequest {
  const { own } = request
  if (own === undefined) return { request, leftOut: [] }
  const noToolMembers = form[`no ${TOOL_MEMBER}`] === true
  const isPlain = own.betas.length + own.tools.length + Object.keys(own.members).length === 0
  if (isPlain && !noToolMembers) return { request, leftOut: [] }
  const refused = refusedBy(form)
  const isOut = (beta: string) =>
    refused.has(beta) ||
    (noToolMembers && OF_TOOL_MEMBERS.test(beta)) ||
    membersOf(beta).some((name) => form[`no ${MEMBER}${name}`])
  const out = own.betas.filter(isOut)
  const kept = own.betas.filter((beta) => !isOut(beta))
  const members = Object.keys(own.members).filter(
    (name) => form[`no ${MEMBER}${name}`] === true || isOnlyFor(name, out, kept),
  )
  const tools = own.tools.filter(({ kind }) => hasLost(kind, out, kept) || (noToolMembers && /^tool_search/.test(kind)))
  const losesMembers =
    noToolMembers ||
    (out.some((beta) => OF_TOOL_MEMBERS.test(beta)) && !kept.some((beta) => OF_TOOL_MEMBERS.test(beta)))
  if (out.length + members.length + tools.length === 0 && !noToolMembers) return { request, leftOut: [] }
  const left: OwnFields = {
    ...own,
    betas: kept,
    members: withoutMembers(own.members, members),
    tools: own.tools.filter((tool) => !tools.includes(tool)),
  }
  return {
    request: {
      ...request,
      own: left,
      tools: losesMembers || tools.length > 0 ? request.tools.rewritten(!losesMembers) : request.tools,
    },
    leftOut: [...out.map((beta) => `anthropic-beta.${beta}`), ...members, ...tools.map(({ kind }) => `tools.${kind}`)],
  }
}

function membersOf(beta: string): readonly string[] {
  return MEMBERS_OF[beta.replace(DATE, '')] ?? []
}

/** Whether a member is for betas that are left out, and for none that stays. */
function isOnlyFor(member: string, out: readonly string[], kept: readonly string[]): boolean {
  const isFor = (beta: string) => membersOf(beta).includes(member)
  return out.some(isFor) && !kept.some(isFor)
}

function hasLost(kind: string, out: readonly string[], kept: readonly string[]): boolean {
  const isFor = (beta: string) => TOOLS_OF[beta.replace(DATE, '')]?.test(kind) === true
  return out.some(isFor) && !kept.some(isFor)
}

/** What an adapter learns with. */
interface Learning<Form extends BetaForm> extends FormLearning<Form> {
  /** The error of the model itself, if another is around it. */
  readonly errorOf?: (error: ProviderError) => ProviderError
}

/** What a request has taught so far, and what is left out to find out more. */
interface Progress<Form> {
  readonly provider: Provider
  /** As the request was written that was rejected last. */
  readonly form: Form
  /** The fields that errors have named. */
  readonly named: readonly string[]
  /** What to leave out next if errors name none; undefined before the first of these. */
  readonly plans: readonly (readonly string[])[] | undefined
  /** How many further requests there were. */
  readonly further: number
}

/** What betas may cost one request in further ones. */
const FURTHER_MAX = 4

const itself = (error: ProviderError): ProviderError => error

/** "Unexpected value(s) `a`, `b` for the `anthropic-beta` header.", "invalid beta flag". */
const refusesBetas = rejecting(
  '(?:unexpected value\\(s\\)[^]{0,400}?)?(?:anthropic[-_]beta|beta (?:flag|header)s?|betas?)',
)
const NAMED = /[`'"]([\w.:-]{1,100})[`'"]/g

/** A provider that learns from what is rejected and accepted, about betas first. `others`: its other members. */
export function betaProvider<Form extends BetaForm>(
  learning: Learning<Form>,
  others: Omit<Provider, 'request' | 'learn' | 'accepted'>,
): Provider {
  const accepted = (acceptance: Acceptance) => acceptBetas(learning.forms, acceptance)
  return learningProvider(learning, { ...others, accepted }, (_, rejection, provider) => {
    const form = learning.forms.of(rejection.target)
    const progress = { provider, form, named: [], plans: undefined, further: 0 }
    return learnBetas(learning, rejection, progress) ?? learn(learning, rejection, provider)
  })
}

/** Undefined if the rejection is about something else, or has cost enough. */
function learnBetas<Form extends BetaForm>(
  learning: Learning<Form>,
  rejection: Rejection,
  { provider, form, named, plans, further }: Progress<Form>,
): Learned | undefined {
  const { request } = rejection
  const { errorOf = itself } = learning
  const error = errorOf(rejection.error)
  if (request.own === undefined || further >= FURTHER_MAX) return undefined
  const { own } = withoutRefused(request, form).request
  const sent = own?.betas ?? []
  const found = fieldsIn(error, own, sent)
  if (found.length > 0)
    return attempt(learning, rejection, { provider, named: [...named, ...found], plans: undefined, further }, [])
  if (sent.length === 0 || !refusesBetas(error)) return undefined
  const [plan, ...others] = plans ?? plansFor(request, sent, form)
  return plan && attempt(learning, rejection, { provider, named, plans: others, further }, plan)
}

/** The fields that an error names: a member, or betas. */
function fieldsIn(error: ProviderError, own: OwnFields | undefined, sent: readonly string[]): readonly string[] {
  const field = refusedField(error, own)
  if (field !== undefined) return [field]
  return refusesBetas(error) ? fields(namedIn(error, sent)) : []
}

/** The member of the body, or of a tool, that an error rejects, if a beta is for it. */
function refusedField(error: ProviderError, own: OwnFields | undefined): string | undefined {
  const isExtra = error.kind === 'rejected' && /extra inputs are not permitted/i.test(error.message)
  if (!isExtra || own === undefined) return undefined
  const known = new Set(Object.values(MEMBERS_OF).flat())
  const member = Object.keys(own.members).find((name) => known.has(name) && rejecting(name)(error))
  if (member !== undefined) return MEMBER + member
  return new RegExp(`^tools\\.\\d+\\.${TOOL_MEMBERS}\\b`).test(error.message) ? TOOL_MEMBER : undefined
}

function namedIn({ message }: ProviderError, sent: readonly string[]): readonly string[] {
  const names = new Set([...message.matchAll(NAMED)].map(([, name = '']) => name))
  return sent.filter((beta) => names.has(beta))
}

/**
 * What to leave out, one after the other, if none is named: of a known group the one that came back, or else each half
 * or third; then all.
 */
function plansFor(request: ChatRequest, sent: readonly string[], before: BetaForm): readonly (readonly string[])[] {
  const refused = refusedBy(before)
  const sorted = [...sent].sort()
  const all = fields(sorted)
  for (const group of groupsIn(before)) {
    const other = group.filter((beta) => !refused.has(beta))
    const isOpen = other.length > 0 && other.every((beta) => sent.includes(beta))
    const isAsked = group.every((beta) => request.own?.betas.includes(beta))
    if (isOpen && isAsked) return [[ONE + other.join()], fields(group), all]
  }
  if (sorted.length === 1) return [all]
  if (sorted.length > HALVED_MAX) {
    const third = Math.ceil(sorted.length / 3)
    const parts = [sorted.slice(0, third), sorted.slice(third, 2 * third), sorted.slice(2 * third)]
    return [...parts.map((part) => [ONE + part.join()]), all]
  }
  const half = Math.ceil(sorted.length / 2)
  return [[ONE + sorted.slice(0, half).join()], [ONE + sorted.slice(half).join()], all]
}

/**
 * A target has taken a request without some betas: of groups that it had all of, those that came back are good, and the
 * bad one is among the others.
 */
function acceptBetas<Form extends BetaForm>(
  forms: TargetForms<Form>,
  { target, asked, sent, organization }: Acceptance,
): void {
  const known = forms.at(target)
  for (const group of groupsIn(known.form)) {
    const bad = suspected(group)
    const isShown =
      bad.length < group.length &&
      group.every((beta) => asked.betas.includes(beta) && sent.betas.includes(beta) !== bad.includes(beta))
    if (isShown && !isFull(known)) known.add({ field: ONE + bad.join() }, organization, ACCEPTED)
  }
}

/** What is shown of a lesson that no rejection has taught. */
const ACCEPTED = 'a request with the other betas was accepted'

function isFull({ learned }: { readonly learned: readonly string[] }): boolean {
  return learned.filter((field) => field.startsWith(ONE)).length >= LEARNED_MAX
}

function fields(betas: readonly string[]): readonly string[] {
  return betas.map((beta) => ONE + beta)
}

/** The request without what errors have named, and without what the plan leaves out. */
function attempt<Form extends BetaForm>(
  learning: Learning<Form>,
  rejection: Rejection,
  { provider, named, plans, further }: Omit<Progress<Form>, 'form'>,
  plan: readonly string[],
): Learned {
  const { organization, error, request } = rejection
  const known = learning.forms.at(rejection.target)
  const all = [...named, ...plan]
  const lessons = all.flatMap((field) => betaLesson(field) ?? [])
  // A group is left out whole for now.
  const whole = lessons.map(({ field, change }) =>
    field.startsWith(ONE) ? Object.fromEntries(betasIn(field).map((beta) => [`no ${ONE}${beta}`, true])) : change,
  )
  const form: Form = Object.assign({ ...known.form }, ...whole)
  const keep = (): Kept | undefined => {
    const body = Buffer.from(request.conversation.arena.bytes).toString('latin1')
    const kept = lessons.flatMap((lesson) => {
      // The caller's own texts may be those of the rejection.
      const isQuoted = occurrences(body, lesson.words) > lesson.own
      return isFull(known) || isQuoted ? [] : (known.add(lesson, organization, error.message) ?? [])
    })
    return kept[0]
  }
  const learned: Learned = {
    ...{ field: all.join(' '), seen: error.message, keep },
    provider: {
      ...provider,
      ...learning.api({ of: () => form }),
      learn: (next) => {
        const rejected = { ...rejection, error: next.error }
        const more = learnBetas(learning, rejected, { provider, form, named, plans, further: further + 1 })
        // What the target rejects in this form comes on top of it.
        return more ?? learnMore(learning, rejected, form, learned)
      },
    },
  }
  return learned
}
