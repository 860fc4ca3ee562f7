/** Items on their way from a worker to the supervisor. */

import { expect, test } from 'bun:test'
import type { ToSupervisor } from '../../src/process/ipc/ipc.ts'
import { itemsOfLines, SupervisorItems } from '../../src/process/ipc/supervisor-items.ts'

const items = ['é', '\u2028"\\', ''].map((text, at) => ({ id: `msg_${at}`, json: JSON.stringify({ id: at, text }) }))

/** What a worker sends before it looks up an item. */
function sentBy(sendsLines: boolean): ToSupervisor[] {
  const sent: ToSupervisor[] = []
  const channel = new SupervisorItems((message) => sent.push(message))
  channel.sendsLines = sendsLines
  channel.put('acme', items.slice(0, 1))
  channel.put('acme', items.slice(1))
  void channel.get('acme', 'msg_0')
  channel.answer(0, undefined)
  return sent
}

test('items of an organization are sent together, as lines', () => {
  const [message, recall] = sentBy(true)
  expect(message?.type === 'item-lines' && itemsOfLines(message)).toEqual(items)
  expect(recall).toMatchObject({ type: 'recall', item: 'msg_0' })
})

test('a supervisor that does not take lines gets objects', () => {
  expect(sentBy(false)[0]).toEqual({ type: 'remember', organization: 'acme', items })
})
