/** The details of one request: its figures, each attempt, and what `explain` answers for its key and model. */

import { count, dollars, duration } from '../core/figure-text.ts'
import { element, StateMark } from './elements.ts'
import { explanation } from './explanation.ts'
import { type AttemptView, modelOf, ownerOf, type RequestView, resultState, resultWord } from './request-line-view.ts'
import { fullTime } from './units.ts'

/** Resolves when the details are closed. */
export async function showDetails(line: RequestView): Promise<void> {
  const close = element('button', { class: 'button', type: 'button' }, 'Close')
  const dialog = element('dialog', { class: 'details', 'aria-labelledby': 'details-title' })
  const explained = element('div', { 'aria-live': 'polite' }, element('p', { class: 'prose' }, 'Loading …'))
  dialog.append(
    head(line, close),
    part('Attempts', attempts(line)),
    part('What weir would do with it now', explained),
    part('Request', facts(line)),
  )
  document.body.append(dialog)
  const closed = new Promise<void>((resolve) => dialog.addEventListener('close', () => resolve(), { once: true }))
  close.addEventListener('click', () => dialog.close())
  // A click beside the dialog lands on its backdrop, which belongs to the dialog itself.
  dialog.addEventListener('click', ({ target }) => {
    if (target === dialog) dialog.close()
  })
  dialog.showModal()
  explained.replaceChildren(...(await explanation(line)))
  await closed
  dialog.remove()
}

function head(line: RequestView, close: HTMLElement): HTMLElement {
  const mark = new StateMark()
  mark.show(resultState(line), [line.status, resultWord(line)].filter((word) => word !== undefined).join(' '))
  const about = element('p', { class: 'about' }, mark.node, element('span', { dir: 'auto' }, ownerOf(line)))
  const title = element('h2', { id: 'details-title', dir: 'auto' }, modelOf(line))
  return element('div', { class: 'details-head' }, element('div', {}, title, about), close)
}

function part(title: string, content: Node): HTMLElement {
  return element('section', { class: 'details-part' }, element('h3', {}, title), content)
}

/** The attempts in order. A line names them only if there were several. */
function attempts(line: RequestView): Node {
  const { provider, served_model, requested_model, status, total_ms = 0, waited_ms = 0 } = line
  const only = { model: served_model ?? requested_model ?? '', ms: total_ms - waited_ms, status: status ?? 0 }
  const made: readonly AttemptView[] = line.attempts ?? (provider === undefined ? [] : [{ provider, ...only }])
  if (made.length === 0) return element('p', { class: 'prose' }, 'None: no provider was asked.')
  const spentMs = made.reduce((sum, { ms }) => sum + ms, 0)
  const totalMs = Math.max(1, spentMs)
  let beforeMs = 0
  const steps = made.map((attempt, at) => {
    const step = attemptStep(attempt, at, beforeMs, totalMs)
    beforeMs += attempt.ms
    return step
  })
  return element('ol', { class: 'steps' }, ...steps)
}

function attemptStep(attempt: AttemptView, at: number, beforeMs: number, totalMs: number): HTMLElement {
  const { provider, model, status, error, cause, ms } = attempt
  const mark = new StateMark('state note')
  const words = [
    status === undefined || status === 0 ? undefined : String(status),
    error?.replaceAll('_', ' ') ?? 'answered',
    cause === undefined ? undefined : `(${cause})`,
  ]
  mark.show(error === undefined ? 'good' : 'bad', words.filter((word) => word !== undefined).join(' '))
  const [before, taken] = [element('span', { class: 'offset' }), element('span', { class: 'used' })]
  before.style.width = `${(beforeMs / totalMs) * 100}%`
  taken.style.width = `${Math.max(1, (ms / totalMs) * 100)}%`
  const bar = element('div', { class: 'bar span', 'aria-hidden': 'true' }, before, taken)
  return element(
    'li',
    { class: 'step' },
    element('span', { class: 'place' }, String(at + 1)),
    element('span', { class: 'what', dir: 'auto' }, `${provider} / ${model}`),
    element('span', {}, duration(ms)),
    mark.node,
    ...providerWords(attempt),
    ...(totalMs > ms ? [bar] : []),
  )
}

/** The words of the provider itself for its failure. */
function providerWords({ provider_code: code, provider_message: message }: AttemptView): readonly HTMLElement[] {
  const words = [code, message].filter((word) => word !== undefined && word !== '')
  return words.length === 0 ? [] : [element('span', { class: 'state note', dir: 'auto' }, words.join(': '))]
}

function facts(line: RequestView): HTMLElement {
  const { time, cost_micro_usd: cost, input_tokens, cached_input_tokens, output_tokens, usage } = line
  const inputs = input_tokens === undefined ? undefined : count(input_tokens)
  const tags = Object.entries(line.tags ?? {}).map(([name, value]) => `${name}=${value}`)
  const cached = cached_input_tokens ? `, ${count(cached_input_tokens)} of them cached` : ''
  const rows: readonly (readonly [string, string | undefined])[] = [
    ['Time', time === undefined ? undefined : fullTime(new Date(time))],
    ['Request id', line.request_id],
    ['Organisation', line.organization],
    ['Key', line.key_state === undefined ? line.key : `${line.key ?? ''} (${line.key_state})`],
    ['API', [line.dialect, line.streamed === true ? 'streamed' : undefined].filter(Boolean).join(', ')],
    ['Transport', line.transport === undefined ? undefined : `${line.transport}, ${line.socket ?? ''}`],
    ['Asked for', line.requested_model],
    ['Served by', [line.served_model, line.provider].filter(Boolean).join(' at ')],
    ['Waited for room', line.waited_ms === undefined ? undefined : duration(line.waited_ms)],
    ['First byte', line.first_byte_ms === undefined ? undefined : duration(line.first_byte_ms)],
    ['Total', line.total_ms === undefined ? undefined : duration(line.total_ms)],
    ['Input tokens', inputs === undefined ? undefined : inputs + cached],
    ['Output tokens', output_tokens === undefined ? undefined : count(output_tokens)],
    ['Counted by', usage],
    ['Cost', cost === undefined ? undefined : dollars(cost, 4)],
    ['Service tier', line.service_tier],
    ['Outcome', line.outcome?.replaceAll('_', ' ')],
    ['Finish reason', line.finish_reason],
    ['Error', line.error],
    ['Limit', line.limit === undefined ? undefined : `${line.limit} of ${line.limit_of ?? ''}`],
    ['Field', line.param],
    ['Path', [line.method, line.path].filter(Boolean).join(' ')],
    ['Address', line.remote],
    ['Tags', tags.join(', ')],
    ['Trace', line.trace_id],
  ]
  const shown = rows.flatMap(([name, value]) => {
    if (value === undefined || value === '') return []
    const isCode = name === 'Request id' || name === 'Trace'
    return [element('dt', {}, name), element('dd', { dir: 'auto', ...(isCode ? { class: 'mono' } : {}) }, value)]
  })
  return element('dl', { class: 'pairs' }, ...shown)
}
