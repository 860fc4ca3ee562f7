/**
 * The bytes of a key in memory: the hash of its token, the length of its id, the id, and the rest of the record as
 * JSON. What thousands of keys have in common (organisation, models, limits, tags) is kept once: with limits and tags
 * in each of 500,000 keys, they took 90 MB more.
 */

import { isObject, type JsonObject, numberOf } from '../core/json.ts'
import { type KeyRecord, keyRecordOfJson } from './key-record.ts'

export const HASH_BYTES = 32
const HASH = /^[0-9a-f]{64}$/

/** Sets of common fields that are kept once; the keys beyond have their own copy. */
const PROFILES_MAX = 4096
const PROFILE_CHARS_MAX = 1000

/** One shared buffer: a buffer for each key made garbage of hundreds of MB while a worker read very many keys. */
let scratch = Buffer.allocUnsafeSlow(4096)

export class KeyLayout {
  private readonly profiles: JsonObject[] = []
  /** By their JSON, the places in `profiles`. */
  private readonly places = new Map<string, number>()

  /** The result is valid until the next call. */
  encode(record: KeyRecord): Buffer {
    const { id, sha256, organization, models, limits, tags, fixedTags, priority, maxWaitMs, ...own } = record
    // A value that is no SHA-256 matches no token. It is kept so that the key is listed.
    const isHash = HASH.test(sha256)
    const common = { organization, models, limits, tags, fixedTags, priority, maxWaitMs }
    const profile = this.placeOf(JSON.stringify(common))
    const rest = profile === undefined ? { ...own, ...common } : { ...own, profile }
    const json = JSON.stringify(isHash ? rest : { ...rest, sha256 })
    const begin = HASH_BYTES + 2
    const most = begin + 3 * (id.length + json.length)
    if (most > scratch.length) scratch = Buffer.allocUnsafeSlow(2 * most)
    scratch.fill(0, 0, HASH_BYTES)
    if (isHash) scratch.write(sha256, 'hex')
    const idLength = scratch.write(id, begin)
    scratch.writeUInt16LE(idLength, HASH_BYTES)
    return scratch.subarray(0, begin + idLength + scratch.write(json, begin + idLength))
  }

  decode(bytes: Buffer): KeyRecord {
    const id = idBytes(bytes)
    const rest: unknown = JSON.parse(bytes.toString('utf8', HASH_BYTES + 2 + id.length))
    const sha256 = bytes.toString('hex', 0, HASH_BYTES)
    const common = isObject(rest) ? this.profiles[numberOf(rest['profile']) ?? -1] : undefined
    const record = isObject(rest) ? keyRecordOfJson({ sha256, ...common, ...rest, id: id.toString() }) : undefined
    if (record === undefined) throw new Error('The bytes of a key in memory are damaged.')
    return record
  }

  /** Undefined if the fields are not kept once. */
  private placeOf(json: string): number | undefined {
    const known = this.places.get(json)
    if (known !== undefined || this.profiles.length >= PROFILES_MAX || json.length > PROFILE_CHARS_MAX) return known
    this.places.set(json, this.profiles.length)
    this.profiles.push(JSON.parse(json))
    return this.profiles.length - 1
  }
}

export function idBytes(bytes: Buffer): Buffer {
  const begin = HASH_BYTES + 2
  return bytes.subarray(begin, begin + bytes.readUInt16LE(HASH_BYTES))
}
