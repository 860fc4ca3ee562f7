/** One POST of an alert to a hook, in the format that it takes. */

import type { HookConfig } from '../core/alerts-config.ts'
import type { JsonObject } from '../core/json.ts'
import { type PostAnswer, ShortPost } from '../providers/short-post.ts'
import { alertmanagerBody, type HookBody, hookBody } from './hook-formats.ts'

/** `reason` completes "not delivered:". */
export type PostResult = { readonly ok: true } | { readonly ok: false; readonly reason: string }

export class Webhook {
  private readonly posts: ShortPost
  private reminding: Promise<unknown> = Promise.resolve()

  constructor(
    readonly config: HookConfig,
    private readonly nowMs: () => number = Date.now,
  ) {
    this.posts = new ShortPost({ name: 'webhook', url: config.url })
  }

  /** Posts an alert, given as its JSON. Never rejects. */
  async post(text: string): Promise<PostResult> {
    // A reminder that arrived after the end would begin the alert again.
    await this.reminding
    return resultOf(await this.send(hookBody(text, this.config, this.nowMs())))
  }

  /** Posts again what has not ended, to an Alertmanager, which else takes it as over. Nothing is tried again. */
  remind(alerts: readonly JsonObject[]): void {
    this.reminding = this.send(alertmanagerBody(alerts, this.config, this.nowMs()))
  }

  /** Ends the requests that are under way: they count as failed. */
  abort(): void {
    this.posts.abort()
  }

  private send({ body, headers }: HookBody): Promise<PostAnswer> {
    return this.posts.send(new TextEncoder().encode(body), headers)
  }
}

function resultOf(answer: PostAnswer): PostResult {
  if ('failure' in answer) return { ok: false, reason: `the webhook is ${answer.failure}` }
  const { status } = answer
  return status >= 200 && status < 300 ? { ok: true } : { ok: false, reason: `the webhook answered ${status}` }
}
