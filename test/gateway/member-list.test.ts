import { describe, expect, test } from 'bun:test'
import { type ListMember, MemberList } from '../../src/core/member-list.ts'
import { property } from '../support/random.ts'

class Named implements ListMember {
  place = -1

  constructor(readonly name: string) {}
}

const names = (list: MemberList<Named>) => list.snapshot().map(({ name }) => name)

describe('a list of members', () => {
  property('has the members of a set after the same moves', 50, (random) => {
    const list = new MemberList<Named>()
    const expected = new Set<string>()
    const all = [...'abcdefghij'].map((name) => new Named(name))
    for (let move = 0; move < 100; move++) {
      const member = all[random.below(all.length)]
      if (member === undefined) throw new Error('no member')
      if (random.chance(0.5)) {
        list.add(member)
        expected.add(member.name)
      } else {
        list.remove(member)
        expected.delete(member.name)
      }
      const where = `move ${move}`
      expect(list.size, where).toBe(expected.size)
      expect(names(list).sort(), where).toEqual([...expected].sort())
      expect(member.place !== -1, where).toBe(expected.has(member.name))
    }
  })

  test('a snapshot keeps those who leave, and their place shows that they have left', () => {
    const list = new MemberList<Named>()
    const [a, b] = [new Named('a'), new Named('b')]
    list.add(a)
    list.add(b)
    const before = list.snapshot()
    list.remove(a)
    expect(before).toEqual([a, b])
    expect([a.place, b.place]).toEqual([-1, 0])
  })
})
