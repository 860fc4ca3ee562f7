/** The callers of the demo: requests at the rate of the plan, each with a key of its organisation. */

import { type PlannedRequest, plan, type Random, rateAt, secretOf } from './world.ts'

/** A caller that waits for more than this many answers sends nothing new: the gateway is down or overloaded. */
const RUNNING_MAX = 400
const TICK_MS = 100
/** A caller that gives up in the middle of a stream, as people do. */
const LEAVING_SHARE = 0.01

/** Sends requests until the signal. `speed` multiplies their number. */
export async function callForever(url: string, random: Random, speed: number, signal: AbortSignal): Promise<void> {
  let running = 0
  let due = 0
  while (!signal.aborted) {
    due += (rateAt(Date.now()) * speed * TICK_MS) / 1000
    for (; due >= 1; due--) {
      if (running >= RUNNING_MAX) continue
      running++
      void send(url, plan(random), random, signal).finally(() => {
        running--
      })
    }
    await Bun.sleep(TICK_MS)
  }
}

async function send(url: string, request: PlannedRequest, random: Random, signal: AbortSignal): Promise<void> {
  const { organization, key, model, inputTokens, outputTokens, streamed } = request
  const content = `${'word '.repeat(inputTokens)}in ${outputTokens} words`
  const leaves = random() < LEAVING_SHARE
  try {
    const answer = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${secretOf(organization, key)}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model, stream: streamed, max_tokens: 800, messages: [{ role: 'user', content }] }),
      signal: leaves ? AbortSignal.any([signal, AbortSignal.timeout(900)]) : signal,
    })
    await answer.arrayBuffer()
  } catch {
    // The caller left, or the gateway is restarting: what matters here is in the gateway's own figures.
  }
}
