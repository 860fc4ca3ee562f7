/** Bugs that somebody might write: file, what stands there once, what stands there instead. The suite must find every one. */

export type Mutant = readonly [file: string, from: string, to: string]

const BOOK = 'redis/store/store.lua'
const RESERVE = 'redis/store/reserve.lua'
const EXTEND = 'redis/store/extend.lua'
const SETTLE = 'redis/store/settle.lua'
const CANCEL = 'redis/store/cancel.lua'

export const luaMutants: readonly Mutant[] = [
  [BOOK, 'return min(AMOUNT_MAX, a + b)', 'return a + b'],
  [BOOK, 'if window <= scope[budget] then', 'if window == scope[budget] then'],
  [
    BOOK,
    'scope[budget], scope[budget + SPENT], scope[budget + HELD] = window, 0, 0',
    'scope[budget], scope[budget + SPENT] = window, 0',
  ],
  [BOOK, 'scope[meter] = max(0, left)', 'scope[meter] = left'],
  [BOOK, 'if per_minute == NONE then return end', 'if per_minute == NONE then scope[meter] = 0 end'],
  [BOOK, 'local elapsed = max(0, now - scope[DRAINED[meter]])', 'local elapsed = now - scope[DRAINED[meter]]'],
  [BOOK, 'scope[DRAINED[meter]] = now', 'scope[DRAINED[meter]] = max(scope[DRAINED[meter]], now)'],
  [BOOK, 'if left < 0 then', 'if false then'],
  [BOOK, 'return limits[i] == NONE and -1 or', 'return'],
  [BOOK, 'elseif before ~= scope[IDLED[meter]] then', 'elseif true then'],
  [BOOK, 'if not trusted then return end', ''],
  [BOOK, 'min(charge - used, back)', 'charge - used'],
  [
    BOOK,
    'return cost <= limit - scope[budget + SPENT] - scope[budget + HELD]',
    'return cost <= limit - scope[budget + SPENT]',
  ],
  [BOOK, 'return cost <= limit - scope[budget + SPENT]', 'return cost < limit - scope[budget + SPENT]'],
  [BOOK, 'if scope[budget] == reservation[WINDOWS + (s - 1) * 3 + b] then', 'if true then'],
  [BOOK, 'reservation[WINDOWS + (s - 1) * 3 + b]', 'reservation[WINDOWS + b]'],
  [BOOK, 'is_live and -unposted(reservation) or 0', '-unposted(reservation)'],
  [BOOK, 'if not is_live then return end', ''],
  [
    BOOK,
    'free(reservation, scopes, max(reservation[POSTED], reservation[FLOOR]))',
    'free(reservation, scopes, reservation[FLOOR])',
  ],
  [
    BOOK,
    'free(reservation, scopes, max(reservation[POSTED], reservation[FLOOR]))',
    'free(reservation, scopes, reservation[POSTED])',
  ],
  [BOOK, 'if reservation[STATE] == IS_LOST then return max', 'if false then return max'],
  [CANCEL, 'if reservation[STATE] == IS_LOST then\n', 'if false then\n'],
  [BOOK, 'IS_LOST, now + LOST_MS', 'IS_LOST, now + ENDED_MS'],
  [BOOK, "DEADLINES, '-inf', now,", "DEADLINES, '-inf', now - 1,"],
  [BOOK, "redis.call('HDEL', RESERVATIONS, id)", ''],
  [BOOK, 'min(charge - used, back)', 'min(max(0, charge - used), back)'],
  [BOOK, 'local input = max(reservation[POSTED_INPUT], reservation[INPUT])', 'local input = reservation[POSTED_INPUT]'],
  [BOOK, 'month <= 2 and 1 or 0', 'month < 2 and 1 or 0'],
  [RESERVE, "if reservation and reservation[STATE] ~= IS_LIVE then return { 'ended' } end", ''],
  [RESERVE, "if reservation then return with_rates({ 'granted', reservation[ADMITTED] }) end", ''],
  [RESERVE, '\nreap()\n', '\n'],
  [RESERVE, 'local held = i == 2 and', 'local held ='],
  [RESERVE, 'and scopes[s][LIVE] > 0', ''],
  [RESERVE, 'CONCURRENT_WAIT_MS, places >= 1)', 'CONCURRENT_WAIT_MS, true)'],
  [RESERVE, 'refuse(s, 3 + b, max(1, renews), false)', 'refuse(s, 3 + b, max(1, renews), true)'],
  [RESERVE, 'refuse(s, 3 + b, math.huge, false)', 'refuse(s, 3 + b, math.huge, true)'],
  [RESERVE, 'elseif cost > limit - spent then', 'elseif cost >= limit - spent then'],
  [RESERVE, '(cost - (limit - spent - held)) / held', 'cost / held'],
  [RESERVE, 'wait, refused_held and', 'wait, all_held and'],
  [RESERVE, 'or 0, all_held and', 'or 0, refused_held and'],
  [RESERVE, 'all_held = all_held and held', 'all_held = held'],
  [RESERVE, 'if wait <= longest then', 'if wait < longest then'],
  [RESERVE, 'wanted > limit and math.huge', 'wanted >= limit and math.huge'],
  [RESERVE, 'scope[LIVE] + 1 > places', 'scope[LIVE] > places'],
  [RESERVE, 'if cost == 0 or has_room', 'if has_room'],
  [RESERVE, 'max(1, renews)', 'renews'],
  [
    RESERVE,
    'for s = 1, 2 do\n  local scope = scopes[s]\n  check_rate',
    'for s = 1, 1 do\n  local scope = scopes[s]\n  check_rate',
  ],
  [RESERVE, 'use(scope, limits[s], 1, tokens)', 'use(scope, limits[s], 1, input)'],
  [RESERVE, 'scopes[2][DAY], scopes[2][MONTH], scopes[2][TOTAL]', 'scopes[1][DAY], scopes[1][MONTH], scopes[1][TOTAL]'],
  [EXTEND, 'max(reservation[POSTED], cost)', 'cost'],
  [EXTEND, 'max(reservation[RESERVED], wanted_cost)', 'wanted_cost'],
  [EXTEND, 'then fits = false end', 'then end'],
  [EXTEND, 'if fits then reservation[RESERVED] = grown end', 'reservation[RESERVED] = grown'],
  [EXTEND, 'if same and not has_room', 'if not has_room'],
  [EXTEND, 'max(0, grown - posted) - before', 'max(0, grown - posted)'],
  [EXTEND, 'max(reservation[DUE], now + LEASE_MS)', 'now + LEASE_MS'],
  [EXTEND, 'reservation[ACCOUNTED] = wanted', ''],
  [EXTEND, '> limits[s][2] then wanted = taken end', '> limits[s][2] then wanted = accounted end'],
  [EXTEND, 'save_reservation(id, reservation)', ''],
  [SETTLE, "if reservation and reservation[STATE] == IS_SETTLED then return { 'already_settled' } end", ''],
  [SETTLE, "if reservation and reservation[STATE] == IS_CANCELLED then return { 'cancelled' } end", ''],
  [SETTLE, 'count(day_of(admitted), key, reservation[MODEL], -1, lost_figures(reservation))', ''],
  [SETTLE, 'correct_tokens(reservation, scopes, limits, sum(input, output))', ''],
  [SETTLE, 'min(scopes[s][BUDGETS[b]], admission[b])', 'admission[b]'],
  [SETTLE, 'min(scopes[s][BUDGETS[b]], admission[b])', 'scopes[s][BUDGETS[b]]'],
  [SETTLE, "if charge.model ~= '' then\n", 'if true then\n'],
  [SETTLE, 'bury(id, IS_SETTLED)', ''],
  [SETTLE, 'admitted, held = reservation[ADMITTED], reservation[RESERVED]', 'held = reservation[RESERVED]'],
  [CANCEL, 'bury(id, IS_CANCELLED)\n  return', 'return'],
  [CANCEL, 'free(reservation, scopes, reservation[POSTED])', 'free(reservation, scopes, 0)'],
  [CANCEL, 'if reservation[POSTED] > 0 then count', 'if false then count'],
  [CANCEL, 'correct(reservation, scopes, limits, 1, 1, 0)', ''],
]

const MEMORY = 'embedded/memory-store.ts'
const LIMITS = 'embedded/limit-check.ts'
const METER = 'embedded/rate-bucket.ts'
const SCOPE = 'embedded/scope-moves.ts'
const RESERVATION = 'embedded/reservation-moves.ts'

export const memoryMutants: readonly Mutant[] = [
  [MEMORY, "if (known.state === 'lost') this.changes.used", 'if (false) this.changes.used'],
  [SCOPE, 'if (window <= budget.window) return', 'if (window === budget.window) return'],
  [SCOPE, '  budget.held = 0\n', ''],
  [METER, 'meter.used = Math.max(0, left)', 'meter.used = left'],
  [METER, 'const elapsed = Math.max(0, now - meter.at)', 'const elapsed = now - meter.at'],
  [METER, 'meter.at = now', 'meter.at = Math.max(meter.at, now)'],
  [METER, 'if (left < 0) meter.idled += 1', ''],
  [METER, 'if (idled === undefined) return 0', ''],
  [METER, 'return idled === meter.idled ? amount :', 'return'],
  [SCOPE, 'if (!trusted) return', ''],
  [METER, 'Math.min(charge.amount - used, returnable(meter, perMinute, charge))', 'charge.amount - used'],
  [METER, 'Math.min(charge.amount - used,', 'Math.min(Math.max(0, charge.amount - used),'],
  [SCOPE, 'costMicroUsd <= limit - budget.spent - budget.held', 'costMicroUsd <= limit - budget.spent'],
  [SCOPE, 'costMicroUsd <= limit - budget.spent - budget.held', 'costMicroUsd < limit - budget.spent - budget.held'],
  [METER, 'amount > perMinute ? Number', 'amount >= perMinute ? Number'],
  [SCOPE, 'if (cost === 0) return', ''],
  [SCOPE, 'scope.live + 1 > places', 'scope.live > places'],
  [SCOPE, 'waitMs: Math.max(1, renewsMs)', 'waitMs: renewsMs'],
  [SCOPE, 'if (cost > limit - budget.spent) return', 'if (cost >= limit - budget.spent) return'],
  [SCOPE, '(HELD_WAIT_MS_MAX * missing) / budget.held', 'HELD_WAIT_MS_MAX'],
  [METER, 'if (perMinute !== undefined) meter.used += amount', 'meter.used += amount'],
  [MEMORY, "if (known !== undefined && known.state !== 'live') return { outcome: 'ended' }", ''],
  [
    MEMORY,
    'this.reapUntil(account.organization, now)\n    const { reservations, deadlines }',
    'const { reservations, deadlines }',
  ],
  [MEMORY, 'for (const budget of scope.budgets) budget.held += costMicroUsd', 'scope.budgets[0].held += costMicroUsd'],
  [MEMORY, 'Math.max(reservation.dueMs, now + this.terms.leaseMs)', 'now + this.terms.leaseMs'],
  [MEMORY, "if (known.state === 'settled') return 'already_settled'", ''],
  [MEMORY, "if (known.state === 'cancelled') return 'cancelled'", ''],
  [MEMORY, 'if (isLate) this.changes.used', 'if (false) this.changes.used'],
  [MEMORY, 'reservations.set(id, tombstone)', ''],
  [MEMORY, 'free(known, scopes, known.postedMicroUsd)', 'free(known, scopes, 0)'],
  [MEMORY, 'Math.max(reservation.postedMicroUsd, reservation.floorMicroUsd)', 'reservation.floorMicroUsd'],
  [RESERVATION, "state === 'lost' ? Math.max(postedMicroUsd, floorMicroUsd) : postedMicroUsd", 'postedMicroUsd'],
  [MEMORY, "state === 'lost' ? lostMs : endedMs", 'endedMs'],
  [MEMORY, 'Math.min(window, admission[i] ?? 0)', 'admission[i] ?? 0'],
  [MEMORY, 'reservation.dueMs > now', 'reservation.dueMs >= now'],
  [LIMITS, 'if (waitMs <= longest) return', 'if (waitMs < longest) return'],
  [LIMITS, 'allHeld &&= held', 'allHeld = held'],
  [RESERVATION, ' || budget.window !== windows?.[j]', ''],
  [RESERVATION, 'isLive ? -unposted(reservation) : 0', '-unposted(reservation)'],
  [
    RESERVATION,
    'if (isLive) for (const scope of scopes) scope.live -= 1',
    'for (const scope of scopes) scope.live -= 1',
  ],
  [RESERVATION, 'Math.max(reservation.postedMicroUsd, soFar)', 'soFar'],
  [RESERVATION, 'if (fits) reservation.heldMicroUsd = grown', 'reservation.heldMicroUsd = grown'],
  [RESERVATION, 'Math.max(0, grown - posted) - before', 'Math.max(0, grown - posted)'],
  [
    RESERVATION,
    'reservation.accountedTokens = fits ? wanted : taken',
    'reservation.accountedTokens = fits ? wanted : before',
  ],
  [RESERVATION, 'budget.window !== reservation.windows[i]?.[j] || hasRoom', 'hasRoom'],
  ['embedded/deadlines.ts', 'right.dueMs < left.dueMs', 'right.dueMs > left.dueMs'],
]

const NODE = 'redis/redis-ledger.ts'
const RESTORATION = 'redis/epochs/replay.ts'
const RECONCILE = 'redis/epochs/reconcile.ts'

export const nodeMutants: readonly Mutant[] = [
  [NODE, "if (attempts.isAnyUnanswered && this.unreachable === 'refuse') this.cancelLater(account, hold.id)", ''],
  [NODE, '      this.cancels.set(id, account)\n    }', '    }'],
  [NODE, 'await this.outbox.add(settlement, isSent)', 'this.outbox.add(settlement, isSent)'],
  [
    NODE,
    'if (!wasSent) return await book.settle(settlement, settlement.charge, { isDirect: true, from })',
    "return 'settled'",
  ],
  [RESTORATION, 'await this.renew(organization, mine)', 'await this.enter(organization, asked)'],
  [RECONCILE, 'found.figures.get(name) ?? noUsage', 'noUsage'],
  [
    NODE,
    "else breaker.failed()\n    }\n    return 'settled'",
    "else this.outbox.taken(id, organization, first.life)\n    }\n    return 'settled'",
  ],
  [NODE, 'await this.replay(this.outbox.pending(REPLAYED_A_BEAT))', ''],
  [NODE, 'this.cancels.delete(id)\n        this.cancelled', 'this.cancelled'],
  [NODE, 'await this.cancelAll()', 'this.cancels.clear()'],
]

const RESTORE = 'redis/epochs/restore.lua'
const ENTER = 'redis/epochs/enter.lua'
const LIVES = 'redis/epochs/epoch-rows.ts'
const EMPTIED = "if known ~= 0 and life ~= known then return { 'emptied' } end"

export const restoreMutants: readonly Mutant[] = [
  [RESERVE, EMPTIED, ''],
  [SETTLE, "if this_life(known) ~= known or not record then return { 'emptied' } end", ''],
  [SETTLE, ' or record[NODE_GIVEN] ~= ALL_GIVEN', ''],
  [SETTLE, 'count_of_node(node, record, day_of(admitted), key, charge.model, figures)', ''],
  [RESTORE, 'number ~= record[NODE_GIVEN] + 1', 'number < 1'],
  [RESTORE, 'if scope[budget] <= admission[b] then', 'if true then'],
  [RESTORE, 'count(day, key, model, 1, figures)', ''],
  [RESTORE, 'count_of_node(node, record, day, key, model, figures)', ''],
  [ENTER, 'before < known', 'false'],
  [ENTER, 'before == ended', 'false'],
  [ENTER, 'record[NODE_LIFE], record[NODE_GIVEN] = life, 0', 'record[NODE_LIFE] = life'],
  [LIVES, 'if (one?.number !== undefined) again.run(one.number)', 'if (one?.number !== undefined) continue'],
  [LIVES, 'for (const id of absorb) gone', 'for (const id of []) gone'],
  ['redis/delivery/outbox.ts', 'else if (isIn(mark.organization, mark.life))', 'else'],
  [RECONCILE, 'if (state?.isOpen === true) {', 'if (false) {'],
  [RECONCILE, 'found.figures.get(name) ?? noUsage', 'noUsage'],
  [NODE, 'this.restoration.doubt(lostMs)', ''],
  [NODE, 'link.onLost(() => this.restoration.doubt(link.lostMs))', ''],
  [NODE, 'if (!wasSent) return await', 'return await'],
  [RESTORATION, 'if (complete) lives.enter(organization, life)', ''],
  [RESTORATION, 'await this.register(organization)', ''],
  [NODE, '      await this.resending.get(organization)\n', ''],
]

const FOLD = 'redis/maintenance/fold-node.lua'

export const foldMutants: readonly Mutant[] = [
  [LIVES, 'Math.max(found.foldedBefore, this.foldedBefore)', 'found.foldedBefore'],
  [LIVES, 'Math.max(found.foldedBefore, this.foldedBefore)', 'this.foldedBefore'],
  [FOLD, 'exact(max(following,', 'exact(min(0,'],
  [FOLD, "redis.call('HDEL', NODES, field_of_node(node, day, key, model))", ''],
  [FOLD, 'add_figures(NODES, field_of_node(node, first, key, model), 1, load_figures(stored))', ''],
  ['redis/store/redis-store.ts', 'daysOfBucket(bucket.day, foldedBefore)', '[bucket.day]'],
  ['redis/delivery/outbox.ts', 'if (foldedBefore !== undefined) this.lives.folded(foldedBefore)', ''],
]
