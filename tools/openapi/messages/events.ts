/** The schemas of the events of a Messages stream. */

import { type TProperties, Type } from '@sinclair/typebox'
import { type Components, choice, count, ref } from '../schema-parts.ts'
import { stopReason } from './answer.ts'

const index = count('The index of the block, from 0 on. One block is open at a time.')

function event(type: string, fields: TProperties, description: string) {
  return Type.Object({ type: Type.Literal(type), ...fields }, { description })
}

const deltas: Components = {
  TextDelta: Type.Object(
    { type: Type.Literal('text_delta'), text: Type.String() },
    { description: 'The next piece of the text.' },
  ),
  InputJsonDelta: Type.Object(
    { type: Type.Literal('input_json_delta'), partial_json: Type.String() },
    { description: 'The next piece of the JSON text of the input. A call without arguments has one empty piece.' },
  ),
}

const thoughts: Components = {
  ThinkingDelta: Type.Object(
    { type: Type.Literal('thinking_delta'), thinking: Type.String() },
    { description: 'The next piece of the words of a thought.' },
  ),
  SignatureDelta: Type.Object(
    { type: Type.Literal('signature_delta'), signature: Type.String({ minLength: 1 }) },
    { description: 'The signature of a thought, at its end.' },
  ),
}

const events: Components = {
  MessageStartEvent: event('message_start', { message: ref('StartedMessage') }, 'The first event.'),
  ContentBlockStartEvent: event(
    'content_block_start',
    { index, content_block: ref('AnswerBlock') },
    'A block begins: an empty text, a call with an empty input, or a thought without words.',
  ),
  ContentBlockDeltaEvent: event(
    'content_block_delta',
    {
      index,
      delta: choice(
        'type',
        {
          text_delta: 'TextDelta',
          input_json_delta: 'InputJsonDelta',
          thinking_delta: 'ThinkingDelta',
          signature_delta: 'SignatureDelta',
        },
        'The next piece.',
      ),
    },
    'The next piece of the open block.',
  ),
  ContentBlockStopEvent: event('content_block_stop', { index }, 'The block is whole.'),
  MessageDeltaEvent: event(
    'message_delta',
    { delta: Type.Object({ stop_reason: stopReason, stop_sequence: Type.Null() }), usage: ref('MessagesUsage') },
    'Why the answer ended, and its whole usage.',
  ),
  MessageStopEvent: event('message_stop', {}, 'The last event. A stream that ends without it was cut.'),
  PingEvent: event('ping', {}, 'Sent every 15 s while the provider is silent, after `message_start`.'),
}

export const messagesStreamComponents: Components = {
  ...deltas,
  ...thoughts,
  ...events,
  MessagesEvent: choice(
    'type',
    {
      message_start: 'MessageStartEvent',
      content_block_start: 'ContentBlockStartEvent',
      content_block_delta: 'ContentBlockDeltaEvent',
      content_block_stop: 'ContentBlockStopEvent',
      message_delta: 'MessageDeltaEvent',
      message_stop: 'MessageStopEvent',
      ping: 'PingEvent',
    },
    'One event of a Messages stream: a line `event: TYPE`, a line `data: JSON` and an empty line. The type is in the ' +
      'JSON, too.',
  ),
}
