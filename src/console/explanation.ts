/** What `explain` answers for the key and the model of a request, in words. */

import { ApiError, askJson } from './api-client.ts'
import { element } from './elements.ts'
import type { RequestLine } from './request-line-view.ts'

/** Resolves to the elements that show it; a failure is one of them. */
export async function explanation({ key, requested_model: model }: RequestLine): Promise<readonly Node[]> {
  if (key === undefined || model === undefined) return [prose('Unknown: the request has no known key or no model.')]
  try {
    const answer = await askJson<unknown>(`/api/explain?${new URLSearchParams({ key, model })}`)
    return [prose(JSON.stringify(answer))]
  } catch (error) {
    return [prose(error instanceof ApiError ? error.message : 'The admin API cannot be reached.')]
  }
}

function prose(text: string): HTMLElement {
  return element('p', { class: 'prose', dir: 'auto' }, text)
}
