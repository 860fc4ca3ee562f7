/** What a process holds of limits: while the shared room is away, and after a reload. */

import { expect, test } from 'bun:test'
import { Rooms } from '../../src/capacity/rooms.ts'

const TARGET = { provider: 'p', model: 'm' }
const DEMAND = { tokens: 1, microUsd: 1 }
const AWAY = {
  take: () => Promise.reject(new Error('away')),
  give: () => undefined,
  renew: () => undefined,
}

function roomsOf(concurrentRequests: number): Rooms {
  const rooms = new Rooms(AWAY)
  rooms.use({ providers: { p: { concurrentRequests } }, targets: [] }, [TARGET], 1)
  return rooms
}

test('while the shared room is away, places that end are free for the next requests', async () => {
  const room = roomsOf(2).of(TARGET)
  for (let i = 0; i < 5; i++) {
    const pair = [await room?.enter(DEMAND, false), await room?.enter(DEMAND, false)]
    expect(pair.every((admission) => admission !== undefined)).toBe(true)
    expect(await room?.enter(DEMAND, false)).toBeUndefined()
    for (const admission of pair) admission?.ended(DEMAND)
    // It looks again after a moment in which nothing was free.
    while ((room?.waitMs(DEMAND) ?? 0) > 0) await Bun.sleep(1)
  }
})

test('a limit that a configuration takes away no longer holds for those who wait, nor is it shown', async () => {
  const rooms = roomsOf(1)
  const room = rooms.of(TARGET)
  const admission = await room?.enter(DEMAND, false)
  expect(await room?.enter(DEMAND, false)).toBeUndefined()
  rooms.use({ providers: {}, targets: [] }, [TARGET], 1)
  expect([rooms.of(TARGET), rooms.left()]).toEqual([undefined, {}])
  expect(room?.tryEnter(DEMAND)).toBeDefined()
  admission?.ended(DEMAND)
})
