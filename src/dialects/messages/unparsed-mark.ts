/** `cache_control` in an unparsed body. */

import { OPEN, QUOTE } from '../../core/json-bytes.ts'
import { END, type JsonCursor, UNKNOWN, unusual, words } from '../../wire/json-cursor.ts'
import { Members } from '../unparsed-members.ts'

const MEMBERS = words('type', 'ttl')
const TYPE = 0
const EPHEMERAL = words('ephemeral')
/** In the order of `MARKS`, after the mark without a TTL. */
const TTLS = words('5m', '1h')
const NULL = words('null')

/**
 * Reads the mark that is the current member of `members`, within `depth` containers: its index in `MARKS`. Throws
 * `Unusual`.
 */
export function readMark(cursor: JsonCursor, members: Members, depth: number): number {
  if (!cursor.isNext(OPEN)) {
    readNull(cursor, members)
    return 0
  }
  cursor.object()
  let [isEphemeral, mark] = [false, 1]
  const inner = new Members(cursor, MEMBERS, depth + 1)
  for (let name = inner.next(); name !== END; name = inner.next()) {
    if (name !== TYPE && !cursor.isNext(QUOTE)) {
      readNull(cursor, inner)
      continue
    }
    cursor.string()
    if (name === TYPE) isEphemeral = cursor.word(EPHEMERAL) === 0
    else mark = cursor.word(TTLS) === UNKNOWN ? 0 : 2 + cursor.word(TTLS)
  }
  return isEphemeral && mark > 0 ? mark : unusual()
}

/** A member whose value is null counts as absent. */
export function readNull(cursor: JsonCursor, members: Members): void {
  if (cursor.literal(NULL) !== 0) unusual()
  members.leaveOut()
}
