/** What `explain` answers for the key and the model of a request: permissions, candidates, what is left of limits. */

import type { Explanation } from '../admin/api-shapes.ts'
import { amountText, span } from '../core/figure-text.ts'
import { ApiError, askJson } from './api-client.ts'
import { element, type State, StateMark } from './elements.ts'
import type { RequestView } from './request-line-view.ts'

/** Resolves to the elements that show it; a failure is one of them. */
export async function explanation(request: RequestView): Promise<readonly Node[]> {
  const { key, requested_model: model, input_tokens: tokens } = request
  if (key === undefined || model === undefined)
    return [prose('Not explained: the request has no known key, or names no model.')]
  try {
    const query = new URLSearchParams({ key, model, ...(tokens === undefined ? {} : { tokens: String(tokens) }) })
    const explained = await askJson<Explanation>(`/api/explain?${query}`)
    return [verdict(explained), candidates(explained), limits(explained), ...explained.remarks.map(prose)]
  } catch (error) {
    return [prose(error instanceof ApiError ? error.message : 'The admin API cannot be reached.')]
  }
}

/** Whether the key may use the models, or the error that the caller would get. */
function verdict({ key_state, permissions, asks, rejected, waits_ms }: Explanation): HTMLElement {
  const rows: (readonly [State, string])[] = permissions.map(({ model, allowed, reason }) => [
    allowed ? 'good' : 'bad',
    `${model} is ${allowed ? 'allowed' : 'denied'}: ${reason}`,
  ])
  if (key_state !== 'active') rows.unshift(['bad', `The key is ${key_state}: every request is rejected with 401.`])
  if (rejected !== null) rows.push(['bad', `Rejected now: ${rejected.status} ${rejected.code}: ${rejected.message}`])
  if (waits_ms !== null)
    rows.push(['warning', `Waits now, for at most ${span(waits_ms / 1000)}: no candidate has room.`])
  if (asks !== null) rows.push(['good', `Admitted now: ${asks.provider} / ${asks.target} is asked first.`])
  return element('ul', { class: 'steps' }, ...rows.map(([state, words]) => element('li', {}, marked(state, words))))
}

/** The targets in the order in which they would be tried. */
function candidates({ candidates, excluded }: Explanation): HTMLElement {
  const steps = candidates.map(({ model, provider, target, price, limits, rest }, at) =>
    element(
      'li',
      { class: 'step' },
      element('span', { class: 'place' }, String(at + 1)),
      element('span', { class: 'what', dir: 'auto' }, `${model} at ${provider} / ${target}`),
      element('span', { class: 'note' }, price),
      ...limits.map((limit) => element('span', { class: 'note' }, limit)),
      ...(rest === null ? [] : [marked('warning', rest, 'state note')]),
    ),
  )
  const left = excluded.map(({ model, reason }) => element('li', {}, marked('neutral', `excluded: ${model} ${reason}`)))
  return element('ol', { class: 'steps' }, ...steps, ...left)
}

function limits({ limits, organization }: Explanation): HTMLElement {
  const rows = limits.flatMap(({ key, limit, unit, amount, left, renews_at }) => {
    const all = amountText(unit, amount)
    const rest = left === null ? `of ${all}; what is left is unknown` : `${amountText(unit, left)} of ${all} left`
    const renewal = renews_at === null ? '' : `, renews in ${span((Date.parse(renews_at) - Date.now()) / 1000)}`
    const name = `${limit}, ${key ?? organization}`
    return [element('dt', { dir: 'auto' }, name), element('dd', {}, rest + renewal)]
  })
  return rows.length === 0
    ? prose('The key and its organisation have no limits.')
    : element('dl', { class: 'pairs limits' }, ...rows)
}

function marked(state: State, words: string, classes = 'state'): HTMLElement {
  const mark = new StateMark(classes)
  mark.show(state, words)
  return mark.node
}

function prose(text: string): HTMLElement {
  return element('p', { class: 'prose', dir: 'auto' }, text)
}
