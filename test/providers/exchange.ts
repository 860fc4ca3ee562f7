/** The steps of a call as promises. */

import type { ProviderError } from '../../src/core/provider-error.ts'
import type { BodyReader } from '../../src/providers/body-readers.ts'
import type { UpstreamCall } from '../../src/providers/upstream.ts'

/** Sends the call; resolves with the head, rejects with the error that came instead. */
export function headOf(call: UpstreamCall): Promise<void> {
  return new Promise((resolve, reject) => call.send({ head: () => resolve(), fail: reject }))
}

/** Sends the call; resolves with its whole body, rejects with the error that came instead. */
export function textOf(call: UpstreamCall): Promise<string> {
  return new Promise((resolve, reject) =>
    call.send({ head: () => call.readText({ text: resolve, fail: reject }), fail: reject }),
  )
}

/** Resolves with the next bytes, or undefined at the end of the body. */
export function nextOf(call: UpstreamCall): Promise<Uint8Array | undefined> {
  return new Promise((resolve, reject: (error: ProviderError) => void) => {
    const data: BodyReader['data'] = (bytes, from, to) => resolve(bytes.slice(from, to))
    const reader: BodyReader = { data, end: () => resolve(undefined), fail: reject }
    call.read(reader)
  })
}
