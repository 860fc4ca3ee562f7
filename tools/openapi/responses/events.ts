/** The schemas of the events of a Responses stream. */

import { type TProperties, Type } from '@sinclair/typebox'
import { type Components, choice, count, oneOf, ref } from '../schema-parts.ts'
import { OWN_EVENTS } from './own-items.ts'

const outputIndex = count('The index of the item in the output of the stream, from 0 on.')
const contentIndex = Type.Literal(0)
const itemId = Type.String({ minLength: 1, description: 'The `id` of the item.' })
const noLogprobs = Type.Array(Type.Unknown(), { maxItems: 0, description: 'Always empty.' })

function event(type: string, fields: TProperties, description: string) {
  const members = {
    type: Type.Literal(type),
    sequence_number: count('0 for the first event, and 1 more for each that follows.'),
    ...fields,
  }
  return Type.Object(members, { description })
}

const ofText = { item_id: itemId, output_index: outputIndex, content_index: contentIndex }
const ofSummary = {
  item_id: itemId,
  output_index: outputIndex,
  summary_index: count('The index of the part of the summary, from 0 on.'),
}
const ofCall = { item_id: itemId, output_index: outputIndex }

/** By the type of the event: the name of its schema, and the schema. */
const events = {
  'response.created': [
    'ResponseCreatedEvent',
    { response: ref('StartedResponse') },
    'The first event: the provider has begun to answer.',
  ],
  'response.in_progress': [
    'ResponseInProgressEvent',
    { response: ref('StartedResponse') },
    'Sent for compactions only, after `response.created`.',
  ],
  'response.output_item.added': [
    'OutputItemAddedEvent',
    { output_index: outputIndex, item: ref('OutputItem') },
    'An item begins: a message without content, a call without arguments, or a thought. Several may be open at a time.',
  ],
  'response.content_part.added': ['ContentPartAddedEvent', { ...ofText, part: ref('OutputText') }, 'A text begins.'],
  'response.output_text.delta': [
    'OutputTextDeltaEvent',
    { ...ofText, delta: Type.String({ minLength: 1 }), logprobs: noLogprobs },
    'The next piece of the text.',
  ],
  'response.output_text.done': [
    'OutputTextDoneEvent',
    { ...ofText, text: Type.String(), logprobs: noLogprobs },
    'The whole text. Text after a call belongs to the same message, so this comes at the end of the answer.',
  ],
  'response.content_part.done': ['ContentPartDoneEvent', { ...ofText, part: ref('OutputText') }, 'The whole part.'],
  'response.function_call_arguments.delta': [
    'FunctionCallArgumentsDeltaEvent',
    { ...ofCall, delta: Type.String({ minLength: 1 }) },
    'The next piece of the JSON text of the arguments.',
  ],
  'response.function_call_arguments.done': [
    'FunctionCallArgumentsDoneEvent',
    { ...ofCall, name: Type.String({ minLength: 1 }), arguments: Type.String() },
    'The whole arguments.',
  ],
  'response.custom_tool_call_input.delta': [
    'CustomToolCallInputDeltaEvent',
    { ...ofCall, delta: Type.String({ minLength: 1 }) },
    'The next piece of the text of a call.',
  ],
  'response.custom_tool_call_input.done': [
    'CustomToolCallInputDoneEvent',
    { ...ofCall, input: Type.String() },
    'The whole text of the call.',
  ],
  'response.output_text.annotation.added': [
    'OutputTextAnnotationAddedEvent',
    { ...ofText, annotation_index: count('The index of the annotation, from 0 on.'), annotation: Type.Object({}) },
    "A citation of OpenAI's own tools.",
  ],
  'response.reasoning_summary_part.added': [
    'ReasoningSummaryPartAddedEvent',
    { ...ofSummary, part: ref('SummaryText') },
    'A part of the words of a thought begins.',
  ],
  'response.reasoning_summary_text.delta': [
    'ReasoningSummaryTextDeltaEvent',
    { ...ofSummary, delta: Type.String({ minLength: 1 }) },
    'The next piece of the part.',
  ],
  'response.reasoning_summary_text.done': [
    'ReasoningSummaryTextDoneEvent',
    { ...ofSummary, text: Type.String() },
    'The whole text of the part.',
  ],
  'response.reasoning_summary_part.done': [
    'ReasoningSummaryPartDoneEvent',
    { ...ofSummary, part: ref('SummaryText') },
    'The whole part.',
  ],
  'response.output_item.done': [
    'OutputItemDoneEvent',
    { output_index: outputIndex, item: ref('OutputItem') },
    'The whole item. These events come in the order of the items.',
  ],
  'response.completed': [
    'ResponseCompletedEvent',
    { response: ref('Response') },
    'The last event, with the whole response. A stream that ends without it was cut.',
  ],
  'response.incomplete': [
    'ResponseIncompleteEvent',
    { response: ref('Response') },
    'The last event of an answer that is incomplete, if the operator set [`status`](native.md).',
  ],
} as const

const names = {
  ...Object.fromEntries(Object.entries(events).map(([type, [name]]) => [type, name])),
  ...Object.fromEntries(OWN_EVENTS.map((type) => [type, 'OwnToolEvent'])),
}

export const responsesStreamComponents: Components = {
  ...Object.fromEntries(
    Object.entries(events).map(([type, [name, fields, description]]) => [name, event(type, fields, description)]),
  ),
  OwnToolEvent: Type.Object(
    {
      type: oneOf(...OWN_EVENTS),
      sequence_number: count('0 for the first event, and 1 more for each that follows.'),
      output_index: outputIndex,
    },
    {
      description:
        "What a tool of OpenAI's own does, as the provider sent it ([native mode](native.md#tools-of-openai)).",
    },
  ),
  ResponsesEvent: choice(
    'type',
    names,
    'One event of a Responses stream: a line `event: TYPE`, a line `data: JSON` and an empty line. The type is in ' +
      'the JSON, too. There is no `[DONE]`.',
  ),
}
