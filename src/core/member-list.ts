/**
 * A list of objects that come and go with requests. Each one knows its place, so that it leaves without a search.
 *
 * It replaces `Set`. JavaScriptCore moves a set to a new table whenever the old one is full of deleted entries, and the
 * old table keeps its last entries and a reference to the new one, for iterators. As soon as a collection has promoted
 * one old table, it holds every later table until the next full collection. With requests as members, collections of
 * young objects freed only 60 % of the garbage and took 8 ms instead of 1.
 */

export interface ListMember {
  /** Its place in the list; -1 if it is in none. It can be in one list at a time. */
  place: number
}

export class MemberList<T extends ListMember> {
  private readonly members: T[] = []

  get size(): number {
    return this.members.length
  }

  /** Does nothing if it is in the list. */
  add(member: T): void {
    if (member.place !== -1) return
    member.place = this.members.length
    this.members.push(member)
  }

  /** Does nothing if it is not in the list. The last member takes its place. */
  remove(member: T): void {
    const { place } = member
    if (place === -1) return
    const last = this.members.pop()
    if (last !== undefined && last !== member) {
      this.members[place] = last
      last.place = place
    }
    member.place = -1
  }

  /** All members at this moment; some may have left when their turn comes. */
  snapshot(): readonly T[] {
    return this.members.slice()
  }
}
