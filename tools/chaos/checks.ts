/** The checks of the ledger's figures, the audit trail and the logs: one function each. */

import { isObject } from '../../src/core/json.ts'
import { tagsByName, tierOfTags } from '../../src/core/tags.ts'
import type { AuditRow } from '../../src/ledger/audit-columns.ts'
import { OUTBOX_SCHEMA } from '../../src/ledger/redis/outbox/outbox-schema.ts'
import type { Result } from './callers.ts'
import type { Gateway } from './gateway.ts'
import { type AllFigures, type Charge, finalOf, rowsOf, sumOf, type Trail } from './ledger-audit.ts'
import { countsCharge, TIGHT, tightMicroUsd } from './organizations.ts'
import type { Served } from './provider.ts'
import type { Report } from './report.ts'

export function checkHeld(report: Report, figures: AllFigures): void {
  const held = sumOf(figures.values(), ({ day, month, total }) => day.held + month.held + total.held)
  const live = sumOf(figures.values(), (one) => one.live)
  report.check(`nothing is held at the end: held ${held} = 0, live ${live} = 0`, held === 0 && live === 0)
}

/** The spend of each organization, key and counter is the sum of its charges. */
export function checkSpent(
  report: Report,
  figures: AllFigures,
  charges: readonly Pick<Charge, 'organization' | 'key' | 'tags' | 'costMicroUsd'>[],
): void {
  for (const [who, { total, month }] of figures) {
    const of = charges.filter((charge) => countsCharge(who, charge))
    const charged = sumOf(of, ({ costMicroUsd }) => costMicroUsd)
    const passed = total.spent === charged && month.spent === charged
    report.check(
      `${who}, ${of.length} charges: spent ${total.spent}, this month ${month.spent} = charged ${charged}`,
      passed,
    )
  }
}

/** `weir usage` prints the cost and the number of charged requests, under the name of their model. */
export async function checkUsageCommand(
  report: Report,
  gateway: Gateway,
  spent: number,
  requests: number,
): Promise<void> {
  const usage = await gateway.command('usage', '--by', 'model')
  const total = isObject(usage['total']) ? usage['total'] : {}
  report.equal('`weir usage`', ['cost', Number(total['cost_micro_usd'])], ['spent', spent])
  report.equal('`weir usage`', ['requests', Number(total['requests'])], ['requests that were charged', requests])
  const rows = Array.isArray(usage['rows']) ? usage['rows'].filter(isObject) : []
  const names = rows.map((row) => String(row['model']))
  report.check(`every charge is under its model: ${names.join(', ')}`, names.join() === 'm')
}

/**
 * Each charge has the tags that its caller sent, and `weir usage` has the sum of the charges of each. `charges`: the
 * final one of each id.
 */
export async function checkTags(
  report: Report,
  gateway: Gateway,
  charges: readonly (readonly [id: string, charge: Pick<Charge, 'costMicroUsd' | 'tags'>])[],
  results: readonly Result[],
): Promise<void> {
  const sent = new Map(results.map(({ id, project }) => [id, project]))
  const wrong = charges.filter(([id, { tags }]) => sent.has(id) && sent.get(id) !== projectOf(tags))
  report.check(
    `charges with the tags of their requests: all but ${wrong.length} of ${charges.length}`,
    wrong.length === 0,
    wrong.map(([id, { tags }]) => `${id}: sent ${sent.get(id)}, charged ${tags}`),
  )
  await checkSums(report, gateway, charges, { by: 'tag:project', column: 'tag:project', nameOf: projectOf })
}

/** Each charge of a complete answer has the service tier that the provider named, and `weir usage` the sum of each. */
export async function checkTiers(
  report: Report,
  gateway: Gateway,
  charges: readonly (readonly [id: string, charge: Pick<Charge, 'costMicroUsd' | 'tags'>])[],
  { results, served }: { readonly results: readonly Result[]; readonly served: ReadonlyMap<string, Served> },
): Promise<void> {
  const complete = new Map(results.map(({ id, end, mark }) => [id, end === 'complete' ? served.get(mark)?.tier : '']))
  // A request whose gateway was killed is charged without its answer.
  const named = charges.filter(([id, { tags }]) => complete.get(id) && tierOfTags(tags) !== '')
  const wrong = named.filter(([id, { tags }]) => complete.get(id) !== tierOfTags(tags))
  const counted = [...new Set(named.map(([, { tags }]) => tierOfTags(tags)))].sort()
  report.check(
    `charges with the service tier that served: all but ${wrong.length} of ${named.length} (${counted.join(', ')})`,
    wrong.length === 0 && counted.length > 1,
    wrong.map(([id, { tags }]) => `${id}: served by ${complete.get(id)}, charged ${tags}`),
  )
  await checkSums(report, gateway, charges, { by: 'tier', column: 'service_tier', nameOf: tierOfTags })
}

function projectOf(tags: string): string {
  return tagsByName(tags)['project'] ?? ''
}

interface SumColumn {
  readonly by: string
  readonly column: string
  readonly nameOf: (tags: string) => string
}

async function checkSums(
  report: Report,
  gateway: Gateway,
  charges: readonly (readonly [id: string, charge: Pick<Charge, 'costMicroUsd' | 'tags'>])[],
  { by, column, nameOf }: SumColumn,
): Promise<void> {
  const usage = await gateway.command('usage', '--by', by)
  const rows = Array.isArray(usage['rows']) ? usage['rows'].filter(isObject) : []
  for (const name of new Set(charges.map(([, { tags }]) => nameOf(tags)))) {
    const cost = sumOf(rows, (row) => (row[column] === name ? Number(row['cost_micro_usd']) : 0))
    const charged = sumOf(charges, ([, charge]) => (nameOf(charge.tags) === name ? charge.costMicroUsd : 0))
    report.equal(`\`weir usage --by ${by}\` of '${name}'`, ['cost', cost], ['charged', charged])
  }
}

export function checkLimit(report: Report, figures: AllFigures, seconds: number, beyond: number): void {
  const spent = figures.get(TIGHT)?.total.spent ?? 0
  const limit = tightMicroUsd(seconds)
  report.check(
    `${TIGHT}: spent ${spent} ≤ limit ${limit} + ${beyond} reported after its reservation expired`,
    spent <= limit + beyond,
  )
  report.check(`${TIGHT} comes close to its limit: ${spent} > ${limit / 2}`, spent > limit / 2)
}

export function checkErrors(report: Report, gateways: readonly Gateway[]): void {
  const errors = gateways.flatMap((gateway) => gateway.errors)
  report.check(`internal errors of the gateways: ${errors.length}`, errors.length === 0, errors)
}

/**
 * By how much the charge of a request may exceed the limit of its key: the part that was no longer reserved when it was
 * reported.
 */
export function beyondHold(charges: readonly Charge[]): number {
  const last = charges.at(-1)
  if (last?.kind === 'restored') return last.costMicroUsd
  if (last?.kind !== 'late') return last?.overageMicroUsd ?? 0
  return Math.max(last.overageMicroUsd, last.costMicroUsd - (charges.at(-2)?.costMicroUsd ?? 0))
}

/** No reservation is charged twice, and each charge belongs to a request of a caller. */
export function checkTrail(report: Report, trail: Trail, results: readonly Result[]): void {
  const twice = [...trail].filter(([, charges]) => charges.filter(({ kind }) => kind !== 'lost').length > 1)
  report.check(
    `reservations charged twice: ${twice.length} of ${trail.size}`,
    twice.length === 0,
    twice.map(([id, charges]) => `${id}: ${charges.map(({ kind }) => kind).join(', ')}`),
  )
  const kinds = new Map<string, number>()
  for (const charges of trail.values()) {
    const how = charges.map(({ kind }) => kind).join(' then ')
    kinds.set(how, (kinds.get(how) ?? 0) + 1)
  }
  console.log(`     charges: ${[...kinds].map(([how, count]) => `${count} ${how}`).join(' · ')}`)
  const known = new Set(results.map(({ id }) => id))
  const unknown = [...trail].filter(([id, [first]]) => first?.kind !== 'restored' && !known.has(id)).length
  const silent = results.filter(({ end }) => end === 'none').length
  report.check(
    `reservations without a response: ${unknown} ≤ ${silent} callers that received no status`,
    unknown <= silent,
  )
}

/**
 * Redis has each settlement that a gateway recorded, under its own id or in a restored sum, with the exact cost; none
 * is pending.
 */
export function checkOutboxes(report: Report, trail: Trail, rows: readonly AuditRow[], pending: number): void {
  const own = rows.filter(({ id }) => trail.has(id))
  const wrong = own.filter(({ id, costMicroUsd }) => finalOf(trail.get(id)) !== costMicroUsd)
  report.check(
    `recorded settlements: ${own.length} = ${own.length - wrong.length} charged exactly + ${wrong.length} wrong`,
    wrong.length === 0,
    wrong.map(({ id, costMicroUsd }) => `${id} cost ${costMicroUsd}: ${JSON.stringify(trail.get(id))}`),
  )
  const restored = [...trail.values()].flatMap((charges) => charges.filter(({ kind }) => kind === 'restored'))
  const summed = rows.filter(({ id }) => !trail.has(id))
  report.equal(
    `${summed.length} more that Redis lost`,
    ['cost', sumOf(summed, ({ costMicroUsd }) => costMicroUsd)],
    [`restored in ${restored.length} sums`, sumOf(restored, ({ costMicroUsd }) => costMicroUsd)],
  )
  report.check(`outboxes: ${pending} pending`, pending === 0)
}

export function outboxRows(paths: readonly string[]): readonly AuditRow[] {
  return paths.flatMap((path) => rowsOf(path, OUTBOX_SCHEMA))
}
