/**
 * Plausible bugs: a file, a text that occurs in it once, and its replacement. The suite must detect each one; those
 * with `hangs` make something run or wait without an end, and are detected if they do.
 */

export type Mutant = readonly [file: string, from: string, to: string, effect?: 'hangs']

const STORE = 'redis/lua/store.lua'
const COUNTERS = 'redis/lua/counters.lua'
const RESERVE = 'redis/lua/reserve.lua'
const EXTEND = 'redis/lua/extend.lua'
const SETTLE = 'redis/lua/settle.lua'
const CANCEL = 'redis/lua/cancel.lua'
const TAKEN = 'redis/lua/taken.lua'

export const luaMutants: readonly Mutant[] = [
  [COUNTERS, 'if window > opened and now >= ends[b] then', 'if window > opened then'],
  [COUNTERS, 'if now < windows[3][b] then window, fin = window - 1, windows[3][b] end', ''],
  [
    COUNTERS,
    'scope[SPENT[b]], scope[HELD[b]], ends[b] = window, 0, 0, fin',
    'scope[SPENT[b]], ends[b] = window, 0, fin',
  ],
  [COUNTERS, 'if windows and is_trusted() then', 'if windows then'],
  [COUNTERS, 'if #due > 0 then save_counters() end', ''],
  [COUNTERS, 'amounts_of(reservation, lost_amount), nil, owners)', 'amounts_of(reservation, posted), nil, owners)'],
  [COUNTERS, 'free(reservation, scopes, used, limits, owners)', ''],
  [COUNTERS, 'correct(reservation, scopes, limits, used, owners)', ''],
  [COUNTERS, 'known[owners[i][1]] or UNKNOWN_LIMITS', 'UNKNOWN_LIMITS'],
  [RESERVE, 'if #scopes > 2 then begin_hold(id, reservation) end', ''],
  [RESERVE, 'if counter and counters[counter].is_new then return end', ''],
  [EXTEND, 'if owners then move(reservation, scopes, unit, spent, more, limits, owners) end', ''],
  [EXTEND, 'save_hold(id, { reservation, owners })', ''],
  [SETTLE, 'if owners then change_counters(scopes) end', ''],
  [SETTLE, 'min(scopes[s][WINDOW[b]], windows[b])', 'scopes[s][WINDOW[b]]'],
  [
    SETTLE,
    'if hold then\n      local own, owners = end_hold_of(request)\n      note_charged(own, owners, used)\n    end',
    '',
  ],
  [CANCEL, 'end_hold(hold, used, account)', ''],
  [COUNTERS, 'record[i] = reservation[i]', 'record[i] = reservation[1]'],
  [COUNTERS, 'is_same and 0 or owner[2]', '0'],
  [STORE, 'min(AMOUNT_MAX, scope[at] + spent)', 'scope[at] + spent'],
  [STORE, 'if window > scope[WINDOW[b]] then', 'if window ~= scope[WINDOW[b]] then'],
  [
    STORE,
    'scope[WINDOW[b]], scope[SPENT[b]], scope[HELD[b]] = window, 0, 0',
    'scope[WINDOW[b]], scope[SPENT[b]] = window, 0',
  ],
  [STORE, 'scope[USED[r]] = max(0, left)', 'scope[USED[r]] = left'],
  [STORE, 'if per_minute == NONE then return end', 'if per_minute == NONE then scope[USED[r]] = 0 end'],
  [STORE, 'local elapsed = max(0, now - scope[DRAINED[r]])', 'local elapsed = now - scope[DRAINED[r]]'],
  [STORE, 'scope[DRAINED[r]] = now', 'scope[DRAINED[r]] = max(scope[DRAINED[r]], now)'],
  [STORE, 'if left < 0 then', 'if false then'],
  [
    RESERVE,
    'own[RATE[r]] ~= NONE and scope[IDLED[r]] or -1\n    end\n  end\n  if',
    'scope[IDLED[r]]\n    end\n  end\n  if',
  ],
  [STORE, 'elseif before ~= scope[IDLED[r]] then', 'elseif true then'],
  [STORE, 'if trusted then roll(scopes[s]) end', 'roll(scopes[s])'],
  [STORE, 'min(unused, back)', 'unused'],
  [STORE, 'return wanted <= limit - scope[SPENT[b]] - scope[HELD[b]]', 'return wanted <= limit - scope[SPENT[b]]'],
  [STORE, 'return wanted <= limit - scope[SPENT[b]]', 'return wanted < limit - scope[SPENT[b]]'],
  [STORE, 'if scope[WINDOW[b]] == window and', 'if'],
  [
    STORE,
    'local scope, admission, bound = scopes[s], ADMISSION[s],',
    'local scope, admission, bound = scopes[s], ADMISSION[1],',
  ],
  [STORE, 'is_live and -unposted(reservation, unit) or 0', '-unposted(reservation, unit)'],
  [STORE, 'if not is_live then return end', ''],
  [STORE, 'return max(reservation[POSTED], reservation[FLOOR])', 'return reservation[FLOOR]'],
  [STORE, 'return max(reservation[POSTED], reservation[FLOOR])', 'return reservation[POSTED]'],
  [STORE, 'if reservation[STATE] == IS_LOST then return lost_amount', 'if false then return lost_amount'],
  [CANCEL, 'if reservation[STATE] == IS_LOST then\n', 'if false then\n'],
  [STORE, 'reservation[ADMITTED]) + LOST_MS', 'reservation[ADMITTED]) + ENDED_MS'],
  [COUNTERS, "DEADLINES, '-inf', now,", "DEADLINES, '-inf', now - 1,"],
  [STORE, "redis.call('HDEL', RESERVATIONS, id)", ''],
  [STORE, 'min(unused, back)', 'min(max(0, unused), back)'],
  [
    STORE,
    'own_charge(reservation, max(reservation[POSTED_INPUT], reservation[INPUT]),',
    'own_charge(reservation, reservation[POSTED_INPUT],',
  ],
  [STORE, 'month <= 2 and 1 or 0', 'month < 2 and 1 or 0'],
  [RESERVE, "if reservation and reservation[STATE] ~= IS_LIVE then return { 'ended' } end", ''],
  [RESERVE, 'request.turn <= (reservation[TURN] or 0)', 'false'],
  [RESERVE, 'request.turn <= (reservation[TURN] or 0)', 'true'],
  [RESERVE, 'reservation[TURN] = request.turn', ''],
  [RESERVE, 'free(reservation, scopes, NOTHING, limits)', ''],
  [RESERVE, 'correct(reservation, scopes, limits, NOTHING)', ''],
  [RESERVE, 'free(hold[1], own, NOTHING, own_limits, hold[2])', ''],
  [RESERVE, 'correct(hold[1], own, own_limits, NOTHING, hold[2])', ''],
  [RESERVE, 'holds[id] or earlier_holds[id]', 'holds[id]'],
  [RESERVE, 'if undo then undo() end', ''],
  [RESERVE, 'change_counters(released)', ''],
  [RESERVE, 'holds[id], earlier_holds[id], dropped[#dropped + 1] = nil, nil, id', 'holds[id] = nil'],
  [RESERVE, '\nreap()\n', '\n'],
  [RESERVE, 'local held = unit ~= REQUESTS and', 'local held ='],
  [RESERVE, 'and scopes[s][LIVE] > 0', ''],
  [RESERVE, 'CONCURRENT_WAIT_MS, most >= 1)', 'CONCURRENT_WAIT_MS, true)'],
  [RESERVE, '- now), false)', '- now), true)'],
  [RESERVE, 'refuse(s, BUDGET[b], math.huge, false)', 'refuse(s, BUDGET[b], math.huge, true)'],
  [RESERVE, 'elseif wanted > limit - spent then', 'elseif wanted >= limit - spent then'],
  [RESERVE, '(wanted - (limit - spent - held)) / held', 'wanted / held'],
  [RESERVE, 'all = refused_held and', 'all = all_held and'],
  [RESERVE, 'or 0, all_held and', 'or 0, refused_held and'],
  [RESERVE, 'all_held = all_held and held', 'all_held = held'],
  [RESERVE, 'if wait <= longest then', 'if wait < longest then'],
  [RESERVE, 'wanted > limit and math.huge', 'wanted >= limit and math.huge'],
  [RESERVE, 'scope[LIVE] + 1 > most', 'scope[LIVE] > most'],
  [RESERVE, 'wanted > 0 and wanted > limit - scope[SPENT[b]]', 'wanted > limit - scope[SPENT[b]]'],
  [RESERVE, 'max(1, fin - now)', 'fin - now'],
  [RESERVE, 'for s = 1, #scopes do check(s) end', 'for s = 1, 1 do check(s) end'],
  [RESERVE, 'use(scopes, limits, unit, demand[unit])', 'use(scopes, limits, unit, demand[TOKENS])'],
  [RESERVE, 'reservation[admission[b]] = scope[WINDOW[b]]', 'reservation[admission[b]] = scopes[1][WINDOW[b]]'],
  [RESERVE, 'min(room, floor(limit - scope[USED[r]]))', 'floor(limit - scope[USED[r]])'],
  [RESERVE, 'budget_limit(own, b) - scope[SPENT[b]] - scope[HELD[b]]', 'budget_limit(own, b) - scope[SPENT[b]]'],
  [RESERVE, 'most - scope[LIVE])', 'most)'],
  [RESERVE, 'exact(max(0, room))', 'exact(room)'],
  [RESERVE, 'is_refusing and min(before, wanted) or wanted', 'wanted'],
  [RESERVE, 'before > 0 and before > limit - spent', 'before > 0'],
  [RESERVE, 'if before == 0 then record_crossing', 'if false then record_crossing'],
  [STORE, 'marks[2 * b - 1] == scope[WINDOW[b]] and marks[2 * b] or 0', 'marks[2 * b] or 0'],
  [STORE, "(s == 1 and '' or scope_field(key))", "''"],
  [EXTEND, 'max(reservation[POSTED], cost)', 'cost'],
  [EXTEND, 'max(taken, wanted), progress - before', 'wanted, progress - before'],
  [
    EXTEND,
    'then return false end\n      end\n    end\n  end\n  return true\nend\n\nlocal function rates_allow',
    'then end\n      end\n    end\n  end\n  return true\nend\n\nlocal function rates_allow',
  ],
  [EXTEND, 'reservation[field] = budgets and rates and grown or taken', 'reservation[field] = grown'],
  [EXTEND, ' and scopes[s][WINDOW[b]] == admitted then', ' then'],
  [EXTEND, 'max(0, grown - progress) - unposted_before', 'max(0, grown - progress)'],
  [EXTEND, 'max(reservation[DUE], now + LEASE_MS)', 'now + LEASE_MS'],
  [EXTEND, 'use(scopes, limits, unit, reservation[field] - held)', ''],
  [EXTEND, 'budgets and rates and grown or taken', 'budgets and rates and grown or held'],
  [EXTEND, 'save_reservation(id, reservation)', ''],
  [SETTLE, "return { 'already_settled' }", ''],
  [SETTLE, "if reservation and reservation[STATE] == IS_CANCELLED then return { 'cancelled' } end", ''],
  [SETTLE, 'note(usage, USAGE, place, -1, lost_figures(reservation))', ''],
  [SETTLE, 'correct(reservation, scopes, limits, used)', ''],
  [SETTLE, 'min(scopes[s][WINDOW[b]], windows[PERIOD[b]])', 'windows[PERIOD[b]]'],
  [SETTLE, 'min(scopes[s][WINDOW[b]], windows[PERIOD[b]])', 'scopes[s][WINDOW[b]]'],
  [SETTLE, "if charge.model ~= '' then\n    local", 'if true then\n    local'],
  [SETTLE, 'bury_all(settled, IS_SETTLED)', ''],
  [SETTLE, 'for i = 1, #requests do\n  outcomes', 'for i = 1, 1 do\n  outcomes'],
  [COUNTERS, 'a > 1 and accounts[1].scopes[1] or scopes[1]', 'scopes[1]'],
  [RESERVE, 'for i = 1, #requests do replies', 'for i = 1, 1 do replies'],
  [RESERVE, 'save_reservations(granted, reservations)', ''],
  [RESERVE, 'reservations[id], changed[key] = reservation, scopes', 'changed[key] = scopes'],
  [SETTLE, 'reservations[id], changed[key] = ended(IS_SETTLED), scopes', 'changed[key] = scopes'],
  [SETTLE, 'admitted, held = reservation[ADMITTED], reservation[RESERVED]', 'held = reservation[RESERVED]'],
  [CANCEL, 'bury(id, IS_CANCELLED, turn)\n  return', 'return'],
  [CANCEL, 'free(reservation, scopes, used, limits)', 'free(reservation, scopes, { 0, 0, 0 }, limits)'],
  [CANCEL, 'if charge.cost > 0 then count_reservation', 'if false then count_reservation'],
  [CANCEL, 'used[REQUESTS] = 0', ''],
  [STORE, 'floor(admitted % DAY_MS / HOUR_MS)', 'floor(now % DAY_MS / HOUR_MS)'],
  [
    STORE,
    'count(day_of(admitted), reservation[KEY], by_hour(reservation[SERIES], admitted), sign',
    'count(day_of(admitted), reservation[KEY], by_hour(parts_of(reservation[SERIES]), admitted), sign',
  ],
  [SETTLE, 'key, by_hour(series, admitted))', 'key, by_hour(charge.model, admitted))'],
  [STORE, 'limits[i] == ANY_RISE or before < limits[i]', 'before < limits[i]'],
  [STORE, 'limits[i] <= after', 'limits[i] < after'],
  [STORE, '(not own or #own > LIMIT_COUNT)', 'not own'],
  [STORE, 'if not limits then return true end', 'if not limits then return false end'],
  [STORE, '(b - 1) * count + 1', '1'],
  [STORE, '>= spent then return end', '>= 0 then return end'],
  [STORE, "if known and tonumber(string.match(known, '^%d+')) >= spent then return end", ''],
  [STORE, "local owner = s == 1 and ''", "local owner = s == 3 and ''"],
  [STORE, 'exact(scopes[s][WINDOW[b]])', 'exact(CURRENT[PERIOD[b]])'],
  [SETTLE, 'free(reservation, scopes, used, limits)', 'free(reservation, scopes, used, { {}, {} })'],
  [SETTLE, 'used[unit], 0, limits)\n', 'used[unit], 0, { {}, {} })\n'],
  [EXTEND, 'unit, spent, more, limits)', 'unit, spent, more, { {}, {} })'],
  [STORE, 'add_figures(NODES, field, 1, lost_figures(reservation))', ''],
  [STORE, 'claimed[i] = min(totals[i], figures[i])', ''],
  [STORE, 'claimed[i] = min(totals[i], figures[i])', 'claimed[i] = totals[i]'],
  [STORE, 'totals[i] = totals[i] - claimed[i]', ''],
  [STORE, 'if now - admitted < LOST_MS - CLOCK_SKEW_MS then return claimed end', ''],
  [SETTLE, 'used[MICRO_USD] = used[MICRO_USD] - claimed[COST_FIGURE]', ''],
  [SETTLE, 'if claimed then note(usage, USAGE, place, -1, claimed) end', ''],
  [TAKEN, "if redis.call('HGET', CROSSINGS, field) == value then", 'if true then'],
]

const MEMORY = 'embedded/memory-store.ts'
const ORDER = 'embedded/reservation-index.ts'
const LIMITS = 'embedded/limit-check.ts'
const MARK = 'refusal-mark.ts'
const BUCKET = 'embedded/rate-bucket.ts'
const SCOPE = 'embedded/scope-moves.ts'
const STATE = 'embedded/store-state.ts'
const RESERVATION = 'embedded/reservation-moves.ts'
const ACCOUNTS = 'embedded/account-state.ts'
const COUNTER_TABLE = 'embedded/counters.ts'
const FULL = 'embedded/socket/full-store.ts'
const THRESHOLDS = '../core/limit-amounts.ts'

export const memoryMutants: readonly Mutant[] = [
  [ACCOUNTS, 'scopes: [...pair, ...own]', 'scopes: pair'],
  [ACCOUNTS, 'budget === undefined ? UNKNOWN_AMOUNTS :', ''],
  [SCOPE, 'window > opened && now >= (scope.ends[index] ?? 0)', 'window > opened'],
  [SCOPE, 'roll(scope, i, window)\n    const end', 'const end'],
  [MEMORY, 'turnOf(hold) <= known.turn)', 'true)'],
  [MEMORY, 'turnOf(hold) <= known.turn)', 'turnOf(hold) < known.turn)'],
  [MEMORY, 'free(known, scopes, NOTHING, limits)', ''],
  [MEMORY, 'correctRates(known, scopes, limits, NOTHING, now)', ''],
  [MEMORY, 'released?.undo()', ''],
  [SCOPE, 'Object.assign(bucket, rates[i])', 'bucket'],
  [SCOPE, 'Object.assign(budget, budgets[i])', 'budget'],
  [COUNTER_TABLE, 'now < scope.untilMs || scope.live > 0', 'now < scope.untilMs'],
  [COUNTER_TABLE, 'this.scopes.size + opened.filter(isNew).length > COUNTERS_MAX', 'false'],
  [SCOPE, 'window <= (scope.windows[index] ?? 0)', 'window === (scope.windows[index] ?? 0)'],
  [SCOPE, '  budget.held = 0\n', ''],
  [BUCKET, 'bucket.used = Math.max(0, left)', 'bucket.used = left'],
  [BUCKET, 'const elapsed = Math.max(0, now - bucket.at)', 'const elapsed = now - bucket.at'],
  [BUCKET, 'bucket.at = now', 'bucket.at = Math.max(bucket.at, now)'],
  [BUCKET, 'if (left < 0) bucket.idled += 1', ''],
  [BUCKET, 'if (idled === NOT_CHARGED) return 0', ''],
  [BUCKET, 'return idled === bucket.idled ? amount :', 'return'],
  [BUCKET, 'Math.min(charge.amount - used, returnable(bucket, perMinute, charge))', 'charge.amount - used'],
  [BUCKET, 'Math.min(charge.amount - used,', 'Math.min(Math.max(0, charge.amount - used),'],
  [SCOPE, 'wanted <= most - spent - held', 'wanted <= most - spent'],
  [SCOPE, 'wanted <= most - spent - held', 'wanted < most - spent - held'],
  [BUCKET, 'amount > perMinute ? Number', 'amount >= perMinute ? Number'],
  [LIMITS, 'if (wanted === 0 || hasRoom', 'if (hasRoom'],
  [LIMITS, 'scope.live + 1 <= most', 'scope.live <= most'],
  [LIMITS, 'else if (wanted > most - spent) {', 'else if (wanted >= most - spent) {'],
  [LIMITS, '(HELD_WAIT_MS_MAX * missing) / held', 'HELD_WAIT_MS_MAX'],
  [LIMITS, '(isNew ? undefined : scope.budgets[budget])', 'scope.budgets[budget]'],
  [LIMITS, 'levelAt(bucket, perMinute, now), perMinute, demand', 'bucket.used, perMinute, demand'],
  [LIMITS, 'remainingOf(levelAt(bucket, perMinute, now), perMinute)', 'remainingOf(bucket.used, perMinute)'],
  [LIMITS, 'budgetAmount(amounts, i) - spent - held', 'budgetAmount(amounts, i) - spent'],
  [LIMITS, 'most - scope.live)', 'most)'],
  [LIMITS, 'return Math.max(0, room)', 'return room'],
  [SCOPE, 'budget.refusedIn === window ? budget.refused : 0', 'budget.refused'],
  [SCOPE, 'window > opened ? 0 : budget.spent', 'budget.spent'],
  [STATE, 'refusedIn === window ? refused : 0', 'refused'],
  [SCOPE, 'if (refused === 0) scope.crossings', 'if (false) scope.crossings'],
  [MARK, 'return isRefusedForSpend(limit, spent, refused) ?', 'return refused > 0 ?'],
  [MARK, 'Math.min(refused, wanted)', 'wanted'],
  [MEMORY, 'markRefusals(scope, at(limits, i)', 'markRefusals(scope, at(limits, 0)'],
  [BUCKET, 'if (perMinute !== NO_LIMIT) bucket.used += amount', 'bucket.used += amount'],
  [MEMORY, "if (known !== undefined && known.state !== 'live') return { outcome: 'ended' }", ''],
  [MEMORY, 'this.reapUntil(organization, now)\n    const known', 'const known'],
  [MEMORY, 'const refused = firstRefusal(', 'advanceBoth(scopes, limits, now)\n    const refused = firstRefusal('],
  [
    RESERVATION,
    'posted(reservation, unit), unposted(reservation, unit), amounts)',
    'posted(reservation, unit), 0, amounts)',
  ],
  [MEMORY, 'Math.max(reservation.dueMs, now + this.terms.leaseMs)', 'now + this.terms.leaseMs'],
  [MEMORY, "if (known.state === 'settled') return 'already_settled'", ''],
  [MEMORY, 'if (isLate) this.changes.used', 'if (false) this.changes.used'],
  [RESERVATION, 'Math.max(reservation.postedMicroUsd, reservation.floorMicroUsd)', 'reservation.floorMicroUsd'],
  [RESERVATION, "reservation.state === 'lost' ? lostAmount(reservation, unit) :", ''],
  [MEMORY, "state === 'lost' ? lostMs + Math.max(0, reservation.admittedMs - now) : endedMs", 'endedMs'],
  [ORDER, 'first.dueMs <= now', 'first.dueMs < now'],
  [LIMITS, 'if (wait <= this.longest) return', 'if (wait < this.longest) return'],
  [LIMITS, 'this.allHeld &&= held', 'this.allHeld = held'],
  [RESERVATION, ' || scope.windows[j] !== windows[j]', ''],
  [RESERVATION, 'isLive ? -unposted(reservation, unit) : 0', '-unposted(reservation, unit)'],
  [RESERVATION, 'if (!isLive) return', ''],
  [RESERVATION, 'Math.max(reservation.postedMicroUsd, soFar.costMicroUsd)', 'soFar.costMicroUsd'],
  [RESERVATION, "const now = outcome === 'fits' ? grown : taken", 'const now = grown'],
  [RESERVATION, 'Math.max(0, grown - progress) - unpostedBefore', 'Math.max(0, grown - progress)'],
  [RESERVATION, "outcome === 'fits' ? grown : taken", "outcome === 'fits' ? grown : held"],
  [RESERVATION, 'scope.windows[j] !== windows[i]?.[j] ||', ''],
  [ORDER, 'while (before !== undefined && before.dueMs > reservation.dueMs) before = before.before', ''],
  [MEMORY, 'seriesAt(seriesOf(charge), reservation.admittedMs)', 'seriesAt(charge.model, reservation.admittedMs)'],
  [RESERVATION, 'series: seriesOfHold(hold)', "series: hold.model ?? ''"],
  [RESERVATION, 'if (spent > 0 && reachesThreshold(', 'if (reservation.place > 0 && reachesThreshold('],
  [RESERVATION, "amountsOf({}, 'unknown')", 'amountsOf({})'],
  [SCOPE, 'isSame(one) && one.spent >= spent)', 'isSame(one))'],
  [SCOPE, 'if (scope.crossings.some((one) => isSame(one) && one.spent >= spent)) return', ''],
  [SCOPE, 'one.budget === budget && one.window === window', 'one.budget === budget'],
  [ACCOUNTS, 'amountsOf(keyLimits, alertShares)', 'amountsOf(keyLimits)'],
  [THRESHOLDS, 'threshold <= after', 'threshold < after'],
  [THRESHOLDS, 'THRESHOLDS_FROM + budget * count', 'THRESHOLDS_FROM'],
  [FULL, 'used[unit], 0, limits)', 'used[unit], 0, [[], []])'],
  [FULL, '(claimed?.costMicroUsd ?? 0)', '0'],
  [FULL, 'this.unclaimed.set(name, addUsage(totals, minusUsage(claimed)))', ''],
  [FULL, '|| now - reservation.admittedMs < this.terms.lostMs - CLOCK_SKEW_MS', ''],
  [MEMORY, "if (due.state === 'lost') this.deletedLost(due)", ''],
]

const NODE = 'redis/redis-ledger.ts'
const UPKEEP = 'redis/node-upkeep.ts'
const DELIVERY = 'redis/delivery/settlement-sender.ts'
const CANCELLATIONS = 'redis/delivery/cancellations.ts'
const RESTORATION = 'redis/recovery/restoration.ts'
const RECONCILE = 'redis/outbox/reconcile.ts'

const COUNTER_SPEND = 'redis/protocol/counter-spend.ts'

export const nodeMutants: readonly Mutant[] = [
  ['reservation-store.ts', 'lostMs: 31 * DAY_MS', 'lostMs: 3_600_000'],
  [FULL, 'charge.costMicroUsd - (claimed?.costMicroUsd ?? 0)', 'charge.costMicroUsd'],
  [NODE, "if (attempts.mayBeHeld && this.unreachable === 'refuse') this.cancellations.add(account, hold)", ''],
  [NODE, "if (attempts.mayBeHeld && reply.outcome === 'refused') this.cancellations.add(account, hold)", ''],
  [NODE, 'if (turnOf(hold) > 0) this.cancellations.drop(hold.id)', ''],
  [CANCEL, '(reservation[TURN] or 0) > turn', 'false'],
  [RESERVE, 'request.turn > (reservation[CANCELLED_TURN] or AMOUNT_MAX)', 'false'],
  [CANCELLATIONS, '      this.pending.set(id, one)\n    }', '    }'],
  [
    NODE,
    'this.outbox.add(settlement, isSent, settling)',
    'this.outbox.add(settlement, isSent, settling)\n      settling.committed()',
  ],
  [DELIVERY, 'if (!pending.wasSent) return await this.settle(pending, true)', "return 'settled'"],
  [RESTORATION, 'await this.renew(organization, mine)', 'await this.enter(organization, asked)'],
  [RECONCILE, 'found.figures.get(name) ?? noUsage', 'noUsage'],
  [COUNTER_SPEND, 'charged.getOrInsert(counter, []).push(', 'charged.set(counter, []).get(counter)?.push('],
  [COUNTER_SPEND, 'if (account.budgets === undefined || isOpen(id)) return new Map()', 'return new Map()'],
  [
    DELIVERY,
    "else breaker.failed()\n    }\n    return 'settled'",
    "else this.outbox.taken(id, organization, first.epoch)\n    }\n    return 'settled'",
  ],
  [UPKEEP, 'await this.delivery.sendSome()', ''],
  [CANCELLATIONS, 'this.pending.delete(id)\n        this.acknowledged', 'this.acknowledged'],
  [CANCELLATIONS, 'await this.link.store.cancel(one.account, id, one.turn)', ''],
]

const RESTORE = 'redis/lua/restore.lua'
const GIVE = 'redis/lua/restore-counter.lua'
const COUNTER_ROWS = 'redis/outbox/counter-rows.ts'
const ENTER = 'redis/lua/enter.lua'
const EPOCH_ROWS = 'redis/outbox/epoch-rows.ts'
const EMPTIED = "if epoch ~= 0 and current ~= epoch then return { 'emptied' } end"

export const restoreMutants: readonly Mutant[] = [
  [RESERVE, EMPTIED, ''],
  [SETTLE, "if this_epoch(epoch) ~= epoch or not record then return { 'emptied' } end", ''],
  [SETTLE, ' or record[NODE_GIVEN] == 0', ''],
  [SETTLE, 'note(usage_of_node, NODES, field_of_node(node, day_of(admitted), key, series), 1, figures)', ''],
  [STORE, 'last == 0 or number == given + 1', 'last == 0 or number > 0'],
  [RESTORE, 'local restored = scope[WINDOW[b]] <= windows[PERIOD[b]] and', 'local restored ='],
  [RESTORE, "if restored > 0 then record_crossing(scopes, s, b, NONE, '') end", ''],
  [RESTORE, 'count(day, key, series, 1, figures)', ''],
  [RESTORE, 'count_of_node(node, record, day, key, series, figures)', ''],
  [GIVE, 'local restored = scope[WINDOW[b]] <= (spends[1][b] or NONE) and', 'local restored ='],
  [GIVE, "if restored > 0 then record_crossing(scopes, 3, b, NONE, '') end", ''],
  [GIVE, 'save_counters(parts_with(node, { [counter] = charged }))', 'save_counters()'],
  [COUNTERS, 'part[at + 1] = sum(part[at + 1], amounts[b])', 'part[at + 1] = amounts[b]'],
  [COUNTERS, "for node in string.gmatch(nodes, '[^%z]+') do fields[#fields + 1] = part_field(node, name) end", ''],
  [SETTLE, 'note_charged(own, owners, used)', ''],
  [SETTLE, 'if owners then note_charged(scopes, owners, used) end', ''],
  [COUNTER_SPEND, 'const part = parts.get(sum.counter)', 'const part = parts.get(String())'],
  [COUNTER_SPEND, 'if (hold !== undefined) return hold', 'if (hold !== undefined) return new Map()'],
  [COUNTER_ROWS, ' THEN min(', ' IS NULL THEN min('],
  [COUNTER_ROWS, 'WHEN kept_ms <=', 'WHEN kept_ms < 0 AND kept_ms <='],
  [EPOCH_ROWS, 'this.counters.give(organization, plan.rows.length + 1, lackingSpends)', ''],
  [ENTER, 'before < known', 'false'],
  [ENTER, 'before == ended', 'false'],
  [ENTER, 'record[NODE_EPOCH], record[NODE_GIVEN] = epoch, 0', 'record[NODE_EPOCH] = epoch'],
  [EPOCH_ROWS, 'if (one?.number !== undefined) again.run(one.number)', 'if (one?.number !== undefined) continue'],
  [EPOCH_ROWS, 'for (const id of absorb) gone', 'for (const id of []) gone'],
  ['redis/outbox/outbox.ts', ' && isIn(fate.organization, fate.epoch)', ''],
  [RECONCILE, 'if (state?.isOpen === true) {', 'if (false) {'],
  [RECONCILE, 'found.figures.get(name) ?? noUsage', 'noUsage'],
  [UPKEEP, 'this.restoration.doubt(lostMs)', ''],
  [UPKEEP, 'link.onLost(() => restoration.doubt(link.lostMs))', ''],
  [DELIVERY, 'if (!pending.wasSent) return await', 'return await'],
  [RESTORATION, 'if (complete) epochs.enter(organization, epoch)', ''],
  [RESTORATION, 'await this.register(organization)', ''],
  [NODE, '      if (resending !== undefined) await resending\n', ''],
]

export const awayMutants: readonly Mutant[] = [
  [RESTORE, 'used[MICRO_USD] = used[MICRO_USD] - claimed[COST_FIGURE]', ''],
  [RESTORE, 'count(day, key, series, -1, claimed)', ''],
  [RESTORE, 'window_end_ms(DAY, day) - 1', 'window_end_ms(DAY, day)'],
]

const FOLD = 'redis/lua/fold-node.lua'

export const foldMutants: readonly Mutant[] = [
  [EPOCH_ROWS, 'Math.max(found.foldedBefore, this.foldedBefore)', 'found.foldedBefore'],
  [EPOCH_ROWS, 'Math.max(found.foldedBefore, this.foldedBefore)', 'this.foldedBefore'],
  [FOLD, 'exact(max(following,', 'exact(min(0,'],
  [FOLD, "redis.call('HDEL', NODES, field_of_node(node, day, key, series))", ''],
  [FOLD, 'add_figures(NODES, field_of_node(node, first, key, series), 1, load_figures(stored))', ''],
  ['redis/store/recovery-reads.ts', 'daysOfBucket(bucket.day, foldedBefore)', '[bucket.day]'],
  ['redis/outbox/outbox.ts', 'if (foldedBefore !== undefined) this.epochs.folded(foldedBefore)', ''],
]

const SUM = 'redis/lua/sum-node.lua'
const NODE_SUMS = 'redis/outbox/node-sums.ts'

export const sumMutants: readonly Mutant[] = [
  [SUM, 'and record[NODE_GIVEN] ~= ALL_GIVEN then', 'and false then'],
  [SUM, 'day < day_of(now) - NODE_DAYS_KEPT and', ''],
  [SUM, 'sums[key] = load_figures(figures) end', 'end'],
  [SUM, 'sums[key] = sums[key] or {}', 'sums[key] = {}'],
  [SUM, 'before = max(before, day + 1)', 'before = max(before, day)'],
  [SUM, 'record[1], record[NODE_SUMS] = SUMS_VERSION,', 'record[NODE_SUMS] ='],
  [SUM, "redis.call('HDEL', NODES, unpack(gone))", ''],
  [STORE, 'and record[1] ~= SUMS_VERSION then', 'then'],
  ['redis/lua/enter.lua', "record[NODE_SUMS] or ''", "''"],
  ['redis/lua/survey.lua', ' or record[1] == SUMS_VERSION', ''],
  [NODE_SUMS, '.sort((a, b) => a.day - b.day)', '.sort((a, b) => b.day - a.day)'],
  [NODE_SUMS, 'left = addUsage(left, minusUsage(added))', ''],
  [NODE_SUMS, 'most[field] - known[field]', 'most[field]'],
  [NODE_SUMS, 'of [doubtful, open]', 'of [open]'],
  [NODE_SUMS, 'of [doubtful, open]', 'of [doubtful]'],
  [NODE_SUMS, 'of [doubtful, open]', 'of [doubtful, new Map<string, UsageFigures>()]'],
  ['redis/maintenance/usage-folding.ts', 'Number(day) < today - NODE_DAYS_KEPT', 'true'],
  ['redis/node-lease.ts', 'if (!isNew && day === this.seenDay) return', 'return'],
]

const JOURNAL = 'embedded/journal.ts'
const JOURNAL_FILE = 'embedded/journal-file.ts'
const TAIL = 'embedded/journal-tail.ts'
const REPLAY = 'embedded/ledger-database.ts'
const READERS = 'embedded/sqlite-readers.ts'
const STATE_TABLES = 'embedded/state-tables.ts'

export const journalMutants: readonly Mutant[] = [
  [JOURNAL, 'state.applied(this.number)', ''],
  [JOURNAL, '    if (!this.append()) return false\n    try {', '    try {'],
  [JOURNAL, 'if (one.isStored || isKept(one)) unfilled', 'if (isKept(one)) unfilled'],
  [JOURNAL, 'one.isStored = isKept(one)', 'one.isStored = false'],
  [JOURNAL, '    unfilled.clear()\n', ''],
  [JOURNAL, "if (one.state === 'live') live.push(liveValues(one))", "if (one.state === 'live') {}"],
  [JOURNAL, "else if (one.state === 'lost') lost.push(liveValues(one))", ''],
  [JOURNAL, "return state === 'live' || state === 'lost'", "return state === 'live'"],
  [STATE_TABLES, '    this.dropLost.run(id)\n', ''],
  [STATE_TABLES, 'if (isLost) this.dropLive.run(reservation.id)', ''],
  [REPLAY, "for (const row of group.lost) reservations.set(String(row['id']), liveOf(row, 'lost'))", ''],
  [JOURNAL, 'this.number += 1', ''],
  [JOURNAL, 'this.disk.flushNow(this.wal)', ''],
  [JOURNAL_FILE, 'current.size = before', ''],
  [JOURNAL_FILE, 'if (error === null && !this.hasOld)', 'if (error === null)'],
  [
    JOURNAL_FILE,
    'this.disk.flush(wal, (error) =>\n      flushed(error, () => ',
    'void (() => {})(flushed(null, () => ',
  ],
  ['embedded/journal-format.ts', '=== headOf(body) ?', '!== undefined ?'],
  [TAIL, 'cut.some(({ synced }) => synced >= missing)', 'cut.length > 0'],
  [TAIL, 'cut.some(({ synced }) => synced >= missing)', 'false'],
  [REPLAY, 'for (const values of group.rows) reservations.set(idOfRow(values), undefined)', ''],
  [REPLAY, 'state.applied(groups.at(-1)?.number ?? 0)', ''],
  [READERS, ': scopeOf(row)\n', ': readScope(database, organization, key)\n'],
  [READERS, 'yield rows.filter((row) => isWanted(row, query))', ''],
  ['embedded/audit-pages.ts', 'AND number <= ?\n', 'AND number < 1e9 + ?\n'],
  [JOURNAL, 'unfilled.crossings.push(...crossings)', ''],
  [JOURNAL, 'for (const values of unfilled.crossings) this.crossings.add(values)', ''],
  [REPLAY, 'for (const row of group.crossings)', 'for (const row of [])'],
  ['embedded/crossing-table.ts', 'this.dropBefore.run(nowMs - CROSSING_KEPT_MS)', ''],
]
