/** `X-Gateway-Route`: how the model of an answer was chosen, for callers whose operator lets them see it. */

import type { Candidate, Resolution } from '../catalog/resolve.ts'

/** Proxies and SDKs take headers of a few KiB. A dozen candidates fit into this. */
const CHARS_MAX = 1024

export class RouteHeader {
  private readonly steps: string[] = []

  /** `outcome` of a candidate: `answered`, `resting`, `over the limit`, or the kind of its error. */
  add({ model, target }: Candidate, outcome: string): void {
    this.steps.push(`${model.name}@${target.provider}=${outcome}`)
  }

  /**
   * `gpt-5-mini@openai=rate_limited, claude-sonnet@anthropic=answered; excluded: qwen (takes no images)`. Printable
   * ASCII.
   */
  text(excluded: Resolution['excluded']): string {
    const others = excluded.map(({ model, reason }) => `${model.name} (${reason})`)
    const called = this.steps.join(', ')
    const line = others.length === 0 ? called : `${called}; excluded: ${others.join(', ')}`
    const ascii = line.replace(/[^\x20-\x7e]/g, '?')
    return ascii.length <= CHARS_MAX ? ascii : `${ascii.slice(0, CHARS_MAX - 3)}...`
  }
}
