/** How the model of an answer was chosen, in one line for `X-Gateway-Route`: for callers whose operator wants them to see it. */

import type { Candidate, Resolution } from '../catalog/resolve.ts'

/** Proxies and SDKs take headers of a few KiB; a dozen candidates fit into this. */
const CHARS_MAX = 1024

/** What became of a candidate: `answered`, `resting`, `kept` to the front for its prompt cache, or how it failed. */
export class Route {
  private readonly steps: string[] = []

  add({ model, target }: Candidate, what: string): void {
    this.steps.push(`${model.name}@${target.provider}=${what}`)
  }

  /** `gpt-5-mini@openai=rate_limited, claude-sonnet@anthropic=answered; excluded: qwen (takes no images)`. Printable ASCII. */
  text(excluded: Resolution['excluded']): string {
    const left = excluded.map(({ model, reason }) => `${model.name} (${reason})`)
    const line = left.length === 0 ? this.steps.join(', ') : `${this.steps.join(', ')}; excluded: ${left.join(', ')}`
    const ascii = line.replace(/[^\x20-\x7e]/g, '?')
    return ascii.length <= CHARS_MAX ? ascii : `${ascii.slice(0, CHARS_MAX - 3)}...`
  }
}
