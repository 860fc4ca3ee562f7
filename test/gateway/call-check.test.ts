import { expect, test } from 'bun:test'
import type { FinishReason } from '../../src/core/event.ts'
import { ProviderError } from '../../src/core/provider-error.ts'
import { CallCheck } from '../../src/gateway/call-check.ts'

/** The arguments of each call, in pieces; the reason; whether the answer may pass. */
const rows: readonly (readonly [string, readonly (readonly string[])[], FinishReason, 'passes' | 'faults'])[] = [
  ['no call', [], 'stop', 'passes'],
  ['an object', [['{"a":1}']], 'tool-call', 'passes'],
  ['an object in pieces', [['{"a"', ':1', '}']], 'tool-call', 'passes'],
  ['without arguments', [['{}']], 'tool-call', 'passes'],
  ['two objects', [['{}'], ['{"b":[2]}']], 'tool-call', 'passes'],
  ['half an object', [['{"a"']], 'tool-call', 'faults'],
  ['half an object behind a whole one', [['{}'], ['{"a":']], 'tool-call', 'faults'],
  ['no JSON', [['not json']], 'tool-call', 'faults'],
  ['an array', [['[1]']], 'tool-call', 'faults'],
  ['a text', [['"x"']], 'stop', 'faults'],
  ['half an object at the limit', [['{"a"']], 'length', 'passes'],
  ['half an object before a filter', [['{"a"']], 'content-filter', 'passes'],
]

test.each(rows)('%s', (_, calls, reason, outcome) => {
  const check = new CallCheck()
  for (const [index, pieces] of calls.entries()) {
    for (const json of pieces) check.see({ type: 'tool-delta', index, json })
  }
  const finish = () => check.see({ type: 'finish', reason })
  if (outcome === 'passes') finish()
  else expect(finish).toThrow(ProviderError)
})
