/** Fair turns: by class, by organisation and weight, by key. */

import { expect, test } from 'bun:test'
import { type Priority, type Waiting, WaitQueue } from '../../src/capacity/wait-queue.ts'
import { property } from '../support/random.ts'

/** A queue before a provider with room for one request at a time. */
class Stage {
  readonly served: string[] = []
  readonly shed: Priority[] = []
  readonly gone: string[] = []
  private free = 0
  readonly queue = new WaitQueue({ waited: () => undefined, shed: (priority) => void this.shed.push(priority) })

  add(
    organization: string,
    { key = 'k', weight = 1, priority = 'interactive' as Priority, most = 1e6, until = 1e12 } = {},
  ) {
    const waiting: Waiting = {
      ...{ organization, key, weight, priority, candidates: 'm', untilMs: until },
      tryNow: () => {
        if (this.free === 0) return false
        this.free--
        this.served.push(`${organization}/${key}`)
        return true
      },
      hasTurn: false,
      ask: () => undefined,
      gaveUp: () => void this.gone.push(`${organization}/${key}`),
    }
    return { isIn: this.queue.add(waiting, most), waiting }
  }

  serve(count: number): readonly string[] {
    const from = this.served.length
    for (let i = 0; i < count; i++) {
      this.free = 1
      this.queue.roomChanged()
    }
    return this.served.slice(from)
  }
}

const countOf = (served: readonly string[], of: string) => served.filter((one) => one.startsWith(`${of}/`)).length

property('an organisation that sends 1,000 at once delays the request of another by one slot at most', 20, (random) => {
  const stage = new Stage()
  for (let i = 0; i < 1000; i++) stage.add('many')
  stage.serve(random.between(0, 300))
  stage.add('single')
  expect(stage.serve(2)).toContain('single/k')
})

test('one interactive request after 10,000 of batch waits for two slots at most, and batch has each tenth turn', () => {
  const stage = new Stage()
  for (let i = 0; i < 10_000; i++) stage.add(`b${i % 7}`, { priority: 'batch' })
  stage.serve(5)
  stage.add('person')
  expect(stage.serve(2)).toContain('person/k')
  for (let i = 0; i < 200; i++) stage.add('person')
  const served = stage.serve(100)
  expect(served.length - countOf(served, 'person')).toBe(10)
})

property('turns go alike among equals: a Jain index of at least 0.98', 10, (random) => {
  const stage = new Stage()
  const names = Array.from({ length: random.between(2, 40) }, (_, i) => `o${i}`)
  for (const name of names) for (let i = 0; i < random.between(100, 300); i++) stage.add(name)
  const served = stage.serve(50 * names.length)
  const counts = names.map((name) => countOf(served, name))
  const sum = counts.reduce((total, count) => total + count, 0)
  const squares = counts.reduce((total, count) => total + count * count, 0)
  expect((sum * sum) / (counts.length * squares)).toBeGreaterThanOrEqual(0.98)
})

test('turns go by weight', () => {
  const stage = new Stage()
  for (let i = 0; i < 400; i++) {
    stage.add('heavy', { weight: 3 })
    stage.add('light')
  }
  expect(countOf(stage.serve(400), 'heavy')).toBeWithin(295, 306)
})

test('the keys of an organisation take turns', () => {
  const stage = new Stage()
  for (let i = 0; i < 100; i++) stage.add('o', { key: 'busy' })
  stage.add('o', { key: 'calm' })
  expect(stage.serve(2)).toContain('o/calm')
})

test('a full queue turns away who comes, but batch before interactive', () => {
  const stage = new Stage()
  for (let i = 0; i < 3; i++) stage.add('o', { key: `b${i}`, priority: 'batch', most: 3 })
  expect(stage.add('o', { priority: 'batch', most: 3 }).isIn).toBe(false)
  expect(stage.add('o', { most: 3 }).isIn).toBe(true)
  expect([stage.gone, stage.shed]).toEqual([['o/b2'], ['batch', 'batch']])
})

test('while the event loop is late again and again, batch is turned away as it comes', () => {
  const { queue, shed } = new Stage()
  const refused: boolean[] = []
  for (const nowMs of [400, 1200, 1600, 2400, 3200, 4000, 4400]) {
    queue.strain.tick(nowMs)
    refused.push(queue.refuses('batch'))
    expect(queue.refuses('interactive')).toBe(false)
  }
  expect(refused).toEqual([false, false, false, false, false, true, false])
  expect(shed).toEqual(['batch'])
})

test('who leaves is not served, and who waits too long gives up', () => {
  const stage = new Stage()
  const { waiting } = stage.add('gone')
  stage.add('late', { until: 5 })
  stage.add('there')
  stage.queue.leave(waiting)
  stage.queue.tick(6)
  expect([stage.gone, stage.serve(3), stage.queue.size]).toEqual([['late/k'], ['there/k'], 0])
})
