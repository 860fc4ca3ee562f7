/** What an adapter makes of a rejection that suggests another way to write the requests to a target. */

import type { PerTarget } from './per-target.ts'
import type { Learned, Provider, Target } from './provider.ts'

/** The part of a provider that depends on what is known of a target. */
export type RequestApi<Form> = (forms: Pick<PerTarget<Form>, 'of'>) => Pick<Provider, 'request' | 'plainRequest'>

export function learnedForm<Form extends object>(
  provider: Provider,
  forms: PerTarget<Form>,
  target: Target,
  change: Partial<Form>,
  api: RequestApi<Form>,
): Learned {
  // What others have learned in the meantime stays.
  const changed = (): Form => ({ ...forms.of(target), ...change })
  return { provider: { ...provider, ...api({ of: changed }) }, keep: () => forms.set(target, changed()) }
}
