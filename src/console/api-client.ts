/**
 * Requests to the admin API. The token is in the session storage of the tab, which ends with it, and goes into the
 * header `authorization`, never into an address.
 */

const TOKEN = 'weir-admin-token'
/** An answer that takes longer counts as a lost connection. */
const TIMEOUT_MS = 15_000

/** The API requires a token, or rejects the one that it got. */
export class TokenNeeded extends Error {
  constructor(readonly wasRejected: boolean) {
    super('the admin API requires its token')
  }
}

/** The API answered with an error. `message` is its own. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message)
  }
}

export function keepToken(value: string): void {
  sessionStorage.setItem(TOKEN, value)
}

/**
 * Asks for a path of the API. Rejects with `TokenNeeded`, `ApiError`, or the error of `fetch` if there is no
 * connection.
 */
export async function ask(path: string, signal?: AbortSignal): Promise<Response> {
  const token = sessionStorage.getItem(TOKEN)
  const headers: Record<string, string> = token === null ? {} : { authorization: `Bearer ${token}` }
  const answer = await fetch(path, { headers, cache: 'no-store', ...(signal === undefined ? {} : { signal }) })
  if (answer.ok) return answer
  if (answer.status === 401) throw new TokenNeeded(token !== null)
  throw new ApiError(answer.status, messageOf(await answer.text()) ?? `${path} answered with status ${answer.status}`)
}

/** The JSON of a path. Its shape is that of the same version of weir, which also served this page. */
export async function askJson<Shape>(path: string): Promise<Shape> {
  const answer = await ask(path, AbortSignal.timeout(TIMEOUT_MS))
  return await answer.json()
}

/** The message of `{"error": {"code", "message"}}`. */
function messageOf(body: string): string | undefined {
  try {
    const message: unknown = JSON.parse(body)?.error?.message
    return typeof message === 'string' ? message : undefined
  } catch {
    return undefined
  }
}
