import { expect, test } from 'bun:test'
import { Later, type LaterListener, laterOf } from '../../src/core/later.ts'

class Heard implements LaterListener<number> {
  readonly words: string[] = []

  resolved(value: number): void {
    this.words.push(`resolved ${value}`)
  }

  rejected(error: unknown): void {
    this.words.push(`rejected ${error}`)
  }
}

function heardBy(later: Later<number>): readonly string[] {
  const heard = new Heard()
  later.listen(heard)
  return heard.words
}

test('each listener hears the first result at once', () => {
  const later = new Later<number>()
  const [one, another] = [heardBy(later), heardBy(later)]
  expect(one).toEqual([])
  later.resolve(1)
  expect([one, another]).toEqual([['resolved 1'], ['resolved 1']])
  later.resolve(2)
  later.reject(new Error('too late'))
  expect(one).toEqual(['resolved 1'])
  expect(heardBy(later)).toEqual(['resolved 1'])
})

test('an error is a result, too', () => {
  const later = new Later<number>()
  const heard = heardBy(later)
  later.reject(new Error('broken'))
  later.resolve(1)
  expect(heard).toEqual(['rejected Error: broken'])
  expect(heardBy(later)).toEqual(['rejected Error: broken'])
})

test('it can be awaited', async () => {
  const [granted, refused] = [new Later<number>(), new Later<number>()]
  const waiting = Promise.allSettled([granted, refused])
  granted.resolve(1)
  refused.reject(new Error('no'))
  expect(await waiting).toEqual([
    { status: 'fulfilled', value: 1 },
    { status: 'rejected', reason: new Error('no') },
  ])
  expect(await granted).toBe(1)
})

test('a change of its result comes with it, and may fail', () => {
  const later = new Later<number>()
  const doubled = heardBy(later.map((value) => 2 * value))
  const failed = heardBy(
    later.map((value) => {
      throw new Error(`not ${value}`)
    }),
  )
  later.resolve(3)
  expect([doubled, failed]).toEqual([['resolved 6'], ['rejected Error: not 3']])
  const rejected = new Later<number>()
  const heard = heardBy(rejected.map((value) => value))
  rejected.reject('no')
  expect(heard).toEqual(['rejected no'])
})

test('it follows a promise', async () => {
  const heard = heardBy(laterOf(Promise.resolve(4)))
  const failed = heardBy(laterOf<number>(Promise.reject(new Error('lost'))))
  expect(heard).toEqual([])
  await Promise.resolve()
  expect([heard, failed]).toEqual([['resolved 4'], ['rejected Error: lost']])
})
