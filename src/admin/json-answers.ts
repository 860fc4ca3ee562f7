/** The answers of the admin port: JSON, and one form for every error. */

/** A request that the admin port does not answer; `message` has what is wrong and what to do. */
export class AdminError extends Error {
  override readonly name = 'AdminError'

  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(message)
  }
}

/** Sent with every answer of the port. Nothing in it may be stored, framed, or read as another type. */
export const COMMON_HEADERS: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
}

export function json(status: number, body: object, headers: Readonly<Record<string, string>> = {}): Response {
  return new Response(JSON.stringify(body), {
    status,
    headers: { 'content-type': 'application/json', ...COMMON_HEADERS, ...headers },
  })
}

/** `{"error": {"code", "message"}}` */
export function errorAnswer({ status, code, message, headers }: AdminError): Response {
  return json(status, { error: { code, message } }, headers)
}
