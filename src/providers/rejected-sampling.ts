/**
 * Settings of sampling that a model rejects: Claude after 4.6 any temperature but 1, OpenAI's models that reason also
 * penalties and log probabilities. Callers send them to every model, so they are left out and named in `ignored`.
 */

import type { ChatRequest } from '../core/chat-request.ts'
import type { ProviderError } from '../core/provider-error.ts'
import { type Lesson, rejecting } from './learned-form.ts'
import type { UpstreamRequest } from './provider.ts'

type Sampling = ChatRequest['sampling']

interface Setting {
  readonly field: Field
  readonly members: readonly (keyof Sampling)[]
  /** Whether the value asks for what every model does anyway. */
  readonly isUsual: (value: Sampling[keyof Sampling]) => boolean
  /** Its names in bodies and errors. */
  readonly names: string
}

type Field = 'temperature' | 'top_p' | 'frequency_penalty' | 'presence_penalty' | 'logit_bias' | 'logprobs'

/** The settings that a target rejects. */
export type SamplingForm = { readonly [Name in Field as `rejects_${Name}`]?: true | undefined }

const SETTINGS: readonly Setting[] = [
  { field: 'temperature', members: ['temperature'], isUsual: (value) => value === 1, names: 'temperature' },
  // Claude takes 0.99 and more.
  { field: 'top_p', members: ['topP'], isUsual: (value) => Number(value) >= 0.99, names: 'top_?p' },
  { field: 'frequency_penalty', members: ['frequencyPenalty'], isUsual: isZero, names: 'frequency_penalty' },
  { field: 'presence_penalty', members: ['presencePenalty'], isUsual: isZero, names: 'presence_penalty' },
  { field: 'logit_bias', members: ['logitBias'], isUsual: () => false, names: 'logit_bias' },
  {
    field: 'logprobs',
    members: ['logprobs', 'topLogprobs'],
    isUsual: (value) => value === false,
    names: '(?:top_)?logprobs',
  },
]

function isZero(value: unknown): boolean {
  return value === 0
}

/** What Claude after 4.6 rejects. */
export const NO_CLAUDE_SAMPLING: SamplingForm = { rejects_temperature: true, rejects_top_p: true }

function isSent({ members: [first = 'temperature'], isUsual }: Setting, sampling: Sampling): boolean {
  const value = sampling[first]
  return value !== undefined && !isUsual(value)
}

/** What `write` makes of the request without the settings that the target rejects. */
export function withoutRejectedSampling(
  request: ChatRequest,
  form: SamplingForm,
  write: (request: ChatRequest) => UpstreamRequest,
): UpstreamRequest {
  const { sampling } = request
  const left = SETTINGS.filter((setting) => form[`rejects_${setting.field}`] === true && isSent(setting, sampling))
  if (left.length === 0) return write(request)
  const none = Object.fromEntries(left.flatMap(({ members }) => members.map((name) => [name, undefined])))
  const sent = write({ ...request, sampling: { ...sampling, ...none } })
  return { ...sent, ignored: [...(sent.ignored ?? []), ...left.map(({ field }) => field)] }
}

function lessonFor({ field, names }: Setting): Lesson<SamplingForm> {
  return { field, change: { [`rejects_${field}`]: true }, words: new RegExp(`"${names}"`, 'gi'), own: 2 }
}

/** By their settings, in the same order. */
export const SAMPLING_LESSONS: readonly Lesson<SamplingForm>[] = SETTINGS.map(lessonFor)
const REJECTIONS = SETTINGS.map(({ names }) => rejecting(names))

/** "Unsupported value: 'temperature' does not support 0.7 with this model.", "`top_p` is deprecated for this model." */
const BY_MODEL = /deprecated|unsupported|not (?:be )?support/i

/** What a rejection shows about settings of sampling; undefined if it is about something else, or about a value. */
export function samplingLesson(error: ProviderError, { sampling }: ChatRequest): Lesson<SamplingForm> | undefined {
  if (error.kind !== 'rejected' || !BY_MODEL.test(error.message)) return undefined
  const index = SETTINGS.findIndex((setting, at) => isSent(setting, sampling) && REJECTIONS[at]?.(error))
  const lesson = SAMPLING_LESSONS[index]
  return (
    lesson && { ...lesson, own: SETTINGS[index]?.members.filter((name) => sampling[name] !== undefined).length ?? 0 }
  )
}
