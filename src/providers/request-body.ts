/** A provider's body as it is sent. */

import type { JsonObject } from '../core/json.ts'
import type { LongTexts } from '../core/long-texts.ts'
import type { UpstreamRequest } from './provider.ts'

/** The JSON of a body. If marks stand for long texts, the bytes that the caller sent are inserted. */
export function requestBody(body: JsonObject, longTexts: LongTexts | undefined): UpstreamRequest['body'] {
  const json = JSON.stringify(body)
  return longTexts === undefined ? json : longTexts.fill(json)
}
