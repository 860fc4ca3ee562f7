/** How long a form that a target has taught is kept, what processes share of it, and how many there may be. */

import { describe, expect, test } from 'bun:test'
import { FORMS_MAX, type FormEvidence, FormStore, type LearnedForm, parseForm } from '../../src/providers/form-store.ts'

const MINUTES = 60_000
const target = { provider: 'up', model: 'm', entry: 'e' }
const evidence = (organization: string, field = 'x'): FormEvidence => ({ ...target, field, organization, seen: 'no x' })

function stage() {
  const clock = { ms: 1000 }
  const published: FormEvidence[] = []
  const store = new FormStore(
    (each) => published.push(each),
    () => clock.ms,
  )
  return { clock, store, published, fields: () => store.of(target).map(({ field }) => field) }
}

describe('a form is kept', () => {
  test('for ten minutes after one request, and after two of one organization', () => {
    const { clock, store, fields } = stage()
    expect([store.add(evidence('a')), fields()]).toEqual(['for ten minutes', ['x']])
    clock.ms += 10 * MINUTES - 1
    expect(fields()).toEqual(['x'])
    clock.ms += 1
    expect(fields()).toEqual([])
    expect([store.add(evidence('a')), fields()]).toEqual(['for ten minutes', ['x']])
    clock.ms += 10 * MINUTES
    expect(fields()).toEqual([])
  })

  test('for good after three requests', () => {
    const { clock, store, fields } = stage()
    const kept = ['a', 'a', 'a', 'a'].map((organization) => store.add(evidence(organization)))
    expect(kept).toEqual(['for ten minutes', undefined, 'for good', undefined])
    clock.ms += 100_000 * MINUTES
    expect(fields()).toEqual(['x'])
  })

  test('for good after requests of two organizations, however long between them', () => {
    const { clock, store, fields } = stage()
    store.add(evidence('a'))
    clock.ms += 100 * MINUTES
    expect([fields(), store.add(evidence('b'))]).toEqual([[], 'for good'])
    clock.ms += 100_000 * MINUTES
    expect(fields()).toEqual(['x'])
  })

  test('for one entry of the configuration alone', () => {
    const { store } = stage()
    store.add(evidence('a'))
    expect(store.of({ ...target, entry: 'changed' })).toEqual([])
    expect(store.of({ ...target, model: 'other' })).toEqual([])
  })
})

test('evidence of several processes counts together, in whatever order it arrives', () => {
  const keeper = stage().store
  const workers = [new FormStore((each) => keeper.count(each)), new FormStore((each) => keeper.count(each))]
  for (const worker of workers) worker.add(evidence('a'))
  expect(keeper.of(target)).toMatchObject([{ requests: 2, organizations: ['a'] }])
  for (const worker of workers) worker.receive(keeper.all())
  workers[0]?.add(evidence('a'))
  expect(keeper.of(target)).toMatchObject([{ requests: 3, untilMs: null }])
  for (const worker of workers) worker.receive(keeper.all())
  expect(workers.map((worker) => worker.all())).toEqual([keeper.all(), keeper.all()])
  // What is known already is not news, nor is less than that.
  expect(keeper.receive([...keeper.all(), { ...(keeper.all()[0] as LearnedForm), untilMs: 5 }])).toEqual([])
})

test('a usage that was reported is not given up, whichever process learned what first', () => {
  const { store, published, fields } = stage()
  const lesson = { ...evidence('a', 'stream_options'), givesUpUsage: true }
  store.add(lesson)
  expect(fields()).toEqual(['stream_options'])
  store.reportedUsage(target)
  store.reportedUsage(target)
  expect([fields(), store.reportsUsage(target), published.length]).toEqual([[], true, 2])
  expect(store.reportsUsage({ ...target, model: 'other' })).toBe(false)
})

test('what is forgotten is learned again as at first', () => {
  const { store, fields } = stage()
  for (const organization of ['a', 'b']) store.add(evidence(organization))
  store.add(evidence('a', 'y'))
  expect(store.forget(({ field }) => field === 'x')).toMatchObject([{ field: 'x' }])
  expect([fields(), store.add(evidence('a'))]).toEqual([['y'], 'for ten minutes'])
})

test('a store has a bound, and forms that are kept for good are dropped last', () => {
  const { store } = stage()
  for (const organization of ['a', 'b']) store.add(evidence(organization))
  for (let i = 0; i < 2 * FORMS_MAX; i++) store.add({ ...evidence('a'), model: `m${i}` })
  expect(store.all().length).toBeWithin(FORMS_MAX / 2, FORMS_MAX + 1)
  expect(store.of(target)).toHaveLength(1)
  expect(store.of({ ...target, model: `m${2 * FORMS_MAX - 1}` })).toHaveLength(1)
})

test('a form of a file or of another node is read back, and anything else is none', () => {
  const { store } = stage()
  for (const organization of ['a', 'b']) store.add({ ...evidence(organization), givesUpUsage: true })
  store.add(evidence('a', 'y'))
  expect(store.all().map((form) => parseForm(JSON.parse(JSON.stringify(form))))).toEqual([...store.all()])
  for (const other of [null, 1, {}, { ...store.all()[0], untilMs: 'x' }, { ...store.all()[0], field: 1 }])
    expect(parseForm(other)).toBeUndefined()
})
