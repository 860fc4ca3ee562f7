/** The frame of `weir top` is what docs/commands.md shows. */

import { expect, test } from 'bun:test'
import type { Status, TargetRow } from '../../src/admin/api-shapes.ts'
import { topFrame } from '../../src/cli/top-frame.ts'

const LAST_ERROR = { error: 'failed', status: 500, cause: null, at: '2026-11-21T11:59:58Z' }

function target(model: string, state: TargetRow['state'], rest: Partial<TargetRow>): TargetRow {
  const none = { reason: null, since: null, rest_seconds: null, last_error: null }
  return Object.assign({ provider: 'openai', model, state, serves: ['gpt-5-mini'], ...none }, rest) as TargetRow
}

test('the sample in the documentation', async () => {
  const now = {
    requests_per_second: 12.3,
    open_streams: 4,
    ...{ error_share: 0.002, limited_share: 0, tokens_per_second: 1234 },
    ...{ time_to_first_token_p50_ms: 120, time_to_first_token_p95_ms: 480 },
  }
  const status = {
    ...{ version: '1.0.0', commit: '4f2c1aa', ready: true, uptime_seconds: 273_600, last_reload: null },
    ...{ workers: { ready: 2, configured: 2 }, ledger: { kind: 'embedded', up: true }, problems: [] },
    ...{ time: '2026-11-21T12:00:05Z', targets: { healthy: 1 }, now, cost_today_micro_usd: 12_340_000 },
    attention: [{ level: 'warning', kind: 'limit', message: '91% of spend.day of acme is used or held.' }],
  } as unknown as Status
  const attempts = { attempts: 40, success_share: 0.625, first_byte_p50_ms: 300, first_byte_p95_ms: 900 }
  const others = { attempts: 1032, success_share: 0.999, first_byte_p50_ms: 110, first_byte_p95_ms: 400 }
  const frame = topFrame(
    {
      status,
      targets: [
        target('my-deployment', 'resting', {
          ...{ provider: 'azure', ...attempts, traffic_share: 0.024, last_error: LAST_ERROR },
        }),
        target('gpt-5-mini-2025', 'healthy', { ...others, traffic_share: 0.976 }),
      ],
      budgets: [
        {
          ...{ organization: 'acme', key: null, limit: 'spend.day', unit: 'micro_usd', amount: 50_000_000 },
          ...{ used: 43_500_000, held: 2_000_000, renews_at: '2026-11-22T00:00:00Z', state: 'near' },
        } as never,
      ],
      requests: [],
    },
    { width: 120, height: Number.POSITIVE_INFINITY, hasBlocks: false, isColoured: false },
  )
  const page = await Bun.file(new URL('../../docs/commands.md', import.meta.url).pathname).text()
  expect(page).toContain(
    `\`\`\`text\n${frame.map((line) => line.replaceAll('\u00a0', ' ').trimEnd()).join('\n')}\n\`\`\``,
  )
})
