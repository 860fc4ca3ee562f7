/**
 * Whether Claude gets tools that are `strict`: models before 4.5 reject the member, and models by other names may. What
 * the name does not show, the configuration states (`supports: [structured_output]`) or a rejection teaches.
 */

import type { ChatRequest } from '../../core/chat-request.ts'
import * as Kind from '../../core/entry-kinds.ts'
import type { ProviderError } from '../../core/provider-error.ts'
import { isStructuredClaude } from '../../core/structured-output.ts'
import { type Lesson, makeLesson, rejecting } from '../learned-form.ts'

export interface StrictForm {
  /** By its name, the model takes such tools. */
  readonly takesStrict: boolean
  /** Its name shows nothing about that: such tools go to it from callers whose own fields pass. */
  readonly mayTakeStrict: boolean
  readonly rejectsStrict?: boolean | undefined
}

export function strictForm(model: string): StrictForm {
  return { takesStrict: isStructuredClaude(model), mayTakeStrict: !model.includes('claude') }
}

export function takesStrict({ sampling, own }: ChatRequest, form: StrictForm): boolean {
  if (form.rejectsStrict === true) return false
  return form.takesStrict || sampling.followsFormat === true || (form.mayTakeStrict && own !== undefined)
}

const NO_STRICT = makeLesson<StrictForm>('tools.strict', { rejectsStrict: true }, /"strict"/gi, 0)

export const STRICT_LESSONS: readonly Lesson<StrictForm>[] = [NO_STRICT]

/** "tools.0.custom.strict: Extra inputs are not permitted", "'strict' is not supported by this model". */
const rejectsStrict = rejecting('(?:tools\\W+\\d+\\W+)?(?:custom\\W+|function\\W+)?strict')
const UNKNOWN = /not (?:be )?(?:permitted|supported|allowed)|unsupported|unknown|unrecognized|unexpected/i

export function strictLesson(error: ProviderError, { tools }: ChatRequest): Lesson<StrictForm> | undefined {
  if (!tools.has(Kind.STRICT) || !UNKNOWN.test(error.message) || !rejectsStrict(error)) return undefined
  let own = 0
  for (let entry = 0; entry < tools.end; entry = tools.next(entry)) if (tools.kindAt(entry) === Kind.STRICT) own++
  return { ...NO_STRICT, own }
}
