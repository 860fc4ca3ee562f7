/** Messages bodies that tests have as objects → requests as tests compare them. */

import type { JsonObject } from '../../../src/core/json.ts'
import * as request from '../../../src/dialects/messages/request.ts'
import { type RequestBody, readRequestBody } from '../../../src/wire/request-body.ts'
import { type Literal, visible } from '../../support/literal.ts'

/** The body as it arrives: undefined fields are absent. */
function arrived(body: JsonObject): RequestBody {
  return readRequestBody(Buffer.from(JSON.stringify(body)), request.UNPARSED)
}

export function acceptMessages(body: JsonObject, options: request.MessagesOptions): Literal {
  return visible(request.acceptMessages(arrived(body), options))
}

export function acceptCount(body: JsonObject, options: request.MessagesOptions): Literal {
  return visible(request.acceptCount(arrived(body), options))
}
