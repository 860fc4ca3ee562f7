import { expect, test } from 'bun:test'
import { garbageOf } from '../../tools/bench/machine.ts'
import { median, percentile } from '../../tools/bench/statistics.ts'
import { cpuMsOf, residentBytesOf } from '../support/process-table.ts'

const ONE_TO_TEN = [7, 3, 10, 1, 9, 5, 2, 8, 6, 4]

test.each([
  [0, 1],
  [10, 1],
  [11, 2],
  [50, 5],
  [99, 10],
  [100, 10],
])('the percentile %d of 1 to 10 is %d', (p, wanted) => {
  expect(percentile(ONE_TO_TEN, p)).toBe(wanted)
})

test('the percentile 99 of 1 to 1,000 has 10 values above it', () => {
  const values = Array.from({ length: 1000 }, (_, at) => at + 1)
  expect(percentile(values, 99)).toBe(990)
})

test('values are compared as numbers and not changed', () => {
  const values = [10, 9, 100]
  expect(median(values)).toBe(10)
  expect(values).toEqual([10, 9, 100])
})

test('no values have no median', () => {
  expect(median([])).toBeNaN()
})

test('CPU time is user and system time, also of a name with spaces and brackets', () => {
  const stat = '42 (a) b (c) S 1 42 42 0 -1 4194560 900 0 0 0 37 5 1000 2000 20 0 9 0 100 0 0'
  expect(cpuMsOf(stat)).toBe(420)
})

test('resident memory is read in KiB', () => {
  expect(residentBytesOf('VmHWM:\t  900 kB\nVmRSS:\t  512 kB\nRssAnon:\t  100 kB\n')).toBe(524_288)
  expect(residentBytesOf('Name:\tgone\nState:\tZ (zombie)\n')).toBe(0)
})

test('garbage is what collections freed', () => {
  const log = [
    '[GC<0x1>: starting 0.01ms]',
    '[GC<0x1>: START M 9000kb => EdenCollection, a=0kb v=0kb (C:0) i#1:N<Cs> 27+0 v=148kb => 1000kb, p=0.4ms]',
    'GC END!',
    '[GC<0x1>: START M 12000kb => FullCollection, v=0kb',
    'i#2:P<Cs> => 500kb, p=0.9ms (max 0.9)]',
  ].join('\n')
  expect(garbageOf(log)).toEqual({ kilobytes: 19_500, collections: 2 })
  expect(garbageOf('')).toEqual({ kilobytes: 0, collections: 0 })
})
