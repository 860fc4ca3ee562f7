/**
 * Claude on Bedrock by InvokeModel, which takes a body of the Messages API: Converse has no place for what callers of
 * Messages send beyond it, and answers in a form of its own.
 */

import type { ChatRequest } from '../../core/chat-request.ts'
import { parseObject, stringOf } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { authorized, bedrockModel } from '../bedrock-access.ts'
import { bedrockException, bedrockResponseError, innerError } from '../bedrock-error.ts'
import { claudeThinks } from '../efforts.ts'
import { EVENT_STREAM_TYPE, EventStreamFramer } from '../event-stream.ts'
import type { RequestApi } from '../learned-form.ts'
import type { AnswerReader, Provider, Rejection, StreamDecoder, Target } from '../provider.ts'
import { AnthropicDecoder } from './events.ts'
import { betaProvider } from './refused-betas.ts'
import {
  claudeForms,
  claudeLesson,
  type MessageForm,
  messageRequest,
  passingReader,
  withoutAddresses,
} from './request.ts'

const CLAUDE = /claude/
/** The first member of a body. */
const OPENING = '{"anthropic_version":"bedrock-2023-05-31"'
const EXCEPTION = 'exception:'

/** One per stream. Its events have no names but that in their data. */
class InvokedDecoder extends AnthropicDecoder implements StreamDecoder {
  override decode(event: string, data: string): ReturnType<AnthropicDecoder['decode']> {
    if (event.startsWith(EXCEPTION)) throw bedrockException(event.slice(EXCEPTION.length), data)
    return super.decode('', data)
  }
}

/** An event of Anthropic's is in base64 within each message of the stream. */
function anthropicEvent(message: string): Buffer {
  const bytes = stringOf(parseObject(message)?.['bytes'])
  if (bytes === undefined) throw new ProviderError('broken', 'a message of the stream has no bytes')
  return Buffer.from(bytes, 'base64')
}

const reader: AnswerReader = {
  ...passingReader,
  streamType: EVENT_STREAM_TYPE,
  framer: (shortcut) => new EventStreamFramer(shortcut, anthropicEvent),
  decoder: () => new InvokedDecoder(true),
  responseError: bedrockResponseError,
}

const forms = claudeForms((target) => {
  const url = bedrockModel(target)
  return {
    opening: OPENING,
    countOpening: OPENING,
    whole: `${url}/invoke`,
    streamed: `${url}/invoke-with-response-stream`,
    count: url,
    headers: authorized({ url, body: '' }, target.endpoint).headers,
    isOwnApi: false,
    statesStream: false,
    passing: reader,
  }
})

const api: RequestApi<MessageForm> = (known) => ({
  request(request, target) {
    const sent = messageRequest(withoutAddresses(request), known.of(target))
    return { ...sent, ...authorized(sent, target.endpoint) }
  },
})

/** The provider that asks Claude by InvokeModel for callers of Messages whose own fields pass; all else goes on. */
export function withInvokeModel(converse: Provider): Provider {
  const lessonOf = ({ error, request }: Rejection, form: MessageForm) => claudeLesson(innerError(error), request, form)
  const invoke = betaProvider(
    { forms, api, errorOf: innerError, lessonOf },
    {
      ...converse,
      thoughtForm: ({ model }) => (claudeThinks(model) ? 'messages' : undefined),
      ownForm: () => 'messages',
    },
  )
  const of = (request: ChatRequest, { model }: Target) => (isInvoked(request, model) ? invoke : converse)
  return {
    ...converse,
    thoughtForm: (target, request) => of(request, target).thoughtForm?.(target, request),
    ownForm: ({ model }) => (CLAUDE.test(model) ? 'messages' : undefined),
    request: (request, target) => of(request, target).request(request, target),
    learn: (rejection) => of(rejection.request, rejection.target).learn?.(rejection),
    accepted: (acceptance) => invoke.accepted?.(acceptance),
  }
}

function isInvoked({ own }: ChatRequest, model: string): boolean {
  return own?.form === 'messages' && CLAUDE.test(model)
}
