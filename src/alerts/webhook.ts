/** One POST of an alert to the webhook, with its signature. */

import { createHmac } from 'node:crypto'
import type { AlertsConfig } from '../core/alerts-config.ts'
import { type PostAnswer, ShortPost } from '../providers/short-post.ts'

/** `reason` completes "not delivered:". */
export type Attempt = { readonly ok: true } | { readonly ok: false; readonly reason: string }

export class Webhook {
  private readonly posts: ShortPost

  constructor(
    readonly config: AlertsConfig,
    private readonly nowMs: () => number = Date.now,
  ) {
    this.posts = new ShortPost({ name: 'webhook', url: config.webhook, viaFetch: config.viaFetch })
  }

  /** Posts the JSON of an alert. Never rejects. */
  async post(body: string): Promise<Attempt> {
    const headers = {
      'content-type': 'application/json',
      'weir-signature': signatureOf(body, this.config.secret, this.nowMs()),
    }
    return attemptOf(await this.posts.send(new TextEncoder().encode(body), headers))
  }

  /** Ends the requests that are under way: they count as failed. */
  abort(): void {
    this.posts.abort()
  }
}

/** `t=UNIX,v1=HEX`: HMAC-SHA256 of the time, a full stop and the body. Each attempt has its own time. */
function signatureOf(body: string, secret: string, nowMs: number): string {
  const seconds = Math.floor(nowMs / 1000)
  return `t=${seconds},v1=${createHmac('sha256', secret).update(`${seconds}.${body}`).digest('hex')}`
}

function attemptOf(answer: PostAnswer): Attempt {
  if ('failure' in answer) return { ok: false, reason: `the webhook is ${answer.failure}` }
  const { status } = answer
  return status >= 200 && status < 300 ? { ok: true } : { ok: false, reason: `the webhook answered ${status}` }
}
