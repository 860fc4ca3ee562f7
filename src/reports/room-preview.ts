/** The limits of providers and targets for the preview of a request: as full as the running gateway reports them. */

import { CommonRoom } from '../capacity/common-room.ts'
import { bucketOf, type Meter, metersOfTarget } from '../capacity/meter.ts'
import { Rooms } from '../capacity/rooms.ts'
import { WaitQueue } from '../capacity/wait-queue.ts'
import { type CapacityConfig, DEFAULT_QUEUE } from '../core/capacity-limits.ts'
import type { TargetRef } from '../core/model-config.ts'
import type { Capacity } from '../gateway/request-room.ts'

const HOLDER = 'preview'
const OTHERS = 'others'

/** The request would wait for room now. */
export class Waits extends Error {}

class PreviewQueue extends WaitQueue {
  override add(): boolean {
    throw new Waits('The request would wait.')
  }
}

/** `left`: of each limit, from 0 to 1, by its name. */
export function capacityAt(
  config: CapacityConfig,
  targets: readonly TargetRef[],
  left: Readonly<Record<string, number>>,
): Capacity {
  const common = new CommonRoom()
  const meters = new Map(targets.flatMap((each) => metersOfTarget(each, config)).map((meter) => [meter.name, meter]))
  for (const meter of meters.values()) fill(common, meter, left[meter.name] ?? 1)
  const rooms = new Rooms({
    take: async (asks, isLow) => common.take(asks, isLow, HOLDER),
    give: (amounts) => common.give(amounts, HOLDER),
    renew() {},
    report() {},
  })
  rooms.use(config, targets, 1)
  // Nothing of it is renewed: it is for one request.
  rooms.close()
  const { maxWaitMs, maxWaiting } = config.queue ?? DEFAULT_QUEUE
  const queue = new PreviewQueue({ waited() {}, shed() {} })
  return { rooms, queue, maxWaitMs, maxWaiting, waitsForProviders: config.queue !== undefined }
}

function fill(common: CommonRoom, meter: Meter, left: number): void {
  const used = Math.round(meter.limit * (1 - left))
  if (meter.kind === 'rate')
    common.report([{ meter, level: bucketOf(meter).most * left, closedMs: 0, isRefusal: false }])
  else if (meter.kind === 'concurrency') common.renew([{ meter, amount: used }], OTHERS)
  else common.give([{ meter, amount: -used }], OTHERS)
}
