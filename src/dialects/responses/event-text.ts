/**
 * The events of a Responses stream as text: each up to its sequence number, which comes right after its type, and what
 * deltas have in common.
 */

import { joined } from '../../wire/sse.ts'

export const CREATED = opening('response.created')
export const IN_PROGRESS = opening('response.in_progress')
export const FAILED = opening('response.failed')
export const ITEM_ADDED = opening('response.output_item.added')
export const PART_ADDED = opening('response.content_part.added')
export const TEXT_DELTA = opening('response.output_text.delta')
export const TEXT_DONE = opening('response.output_text.done')
export const PART_DONE = opening('response.content_part.done')
export const ARGUMENTS_DELTA = opening('response.function_call_arguments.delta')
export const ARGUMENTS_DONE = opening('response.function_call_arguments.done')
export const INPUT_DELTA = opening('response.custom_tool_call_input.delta')
export const INPUT_DONE = opening('response.custom_tool_call_input.done')
export const ITEM_DONE = opening('response.output_item.done')
export const LAST = { completed: opening('response.completed'), incomplete: opening('response.incomplete') } as const
export const TEXT_DELTA_END = '","logprobs":[]}\n\n'
/** The end of a delta, and the next one up to its number. */
export const SEAM = joined(TEXT_DELTA_END, TEXT_DELTA)
/** A delta up to and including its sequence number, which most streams repeat. */
const numberedDeltas: string[] = []
const NUMBERED_DELTAS_MAX = 1024

/** A delta up to and including its sequence number. */
export function deltaOpening(sequence: number): string {
  if (sequence >= NUMBERED_DELTAS_MAX) return TEXT_DELTA + sequence
  let opening = numberedDeltas[sequence]
  if (opening === undefined) {
    opening = joined(TEXT_DELTA, String(sequence))
    numberedDeltas[sequence] = opening
  }
  return opening
}

/** An event up to its sequence number. */
export function opening(name: string): string {
  return joined('event: ', name, '\ndata: {"type":"', name, '","sequence_number":')
}
