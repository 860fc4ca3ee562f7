/** Encrypts texts that weir hands out or stores, so that only the same organization can read them back. */

import { createCipheriv, createDecipheriv, createHash, hkdfSync } from 'node:crypto'

const VERSION = 1
const KEY_BYTES = 32
const KEY_ID_BYTES = 4
const SALT_BYTES = 16
const TAG_BYTES = 16
const HEAD_BYTES = 1 + KEY_ID_BYTES + SALT_BYTES
/** Each key encrypts one message, so the nonce may be constant. */
const NONCE = new Uint8Array(12)

/** What a sealed text is used for. A text sealed for one purpose does not open for another. */
type Purpose = 'compaction' | 'item' | 'thought' | 'reasoning'

interface MasterKey {
  readonly bytes: Uint8Array
  readonly id: Buffer
}

/**
 * Seals texts for one organization: AES-256-GCM with a new key for each message, derived by HKDF-SHA256 from a master
 * key and a random salt. Layout: version (1 byte), id of the master key (4), salt (16), ciphertext, tag (16).
 * Independent of the caller's API key and of the provider.
 */
export class Sealer {
  private readonly keys: readonly MasterKey[]
  private readonly first: MasterKey

  /**
   * Master keys, 32 bytes in base64 each: the first seals, all open. Throws if there is none, or if one has another
   * length.
   */
  constructor(keys: readonly string[]) {
    this.keys = keys.map(masterKey)
    const first = this.keys[0]
    if (first === undefined) throw new Error('a sealer needs at least one key')
    this.first = first
  }

  seal(purpose: Purpose, organization: string, text: string): Buffer {
    const salt = crypto.getRandomValues(new Uint8Array(SALT_BYTES))
    const { bytes, id } = this.first
    const cipher = createCipheriv('aes-256-gcm', derive(bytes, salt, purpose, organization), NONCE, {
      authTagLength: TAG_BYTES,
    })
    cipher.setAAD(boundTo(purpose, id, organization))
    const sealed = [Uint8Array.of(VERSION), id, salt, cipher.update(text, 'utf8'), cipher.final(), cipher.getAuthTag()]
    return Buffer.concat(sealed)
  }

  /** The text, or undefined if these bytes were not sealed for this purpose and organization with one of the keys. */
  open(purpose: Purpose, organization: string, sealed: Buffer): string | undefined {
    if (sealed.length < HEAD_BYTES + TAG_BYTES || sealed[0] !== VERSION) return undefined
    const id = sealed.subarray(1, 1 + KEY_ID_BYTES)
    for (const key of this.keys) {
      const text = key.id.equals(id) ? unseal(key, purpose, organization, sealed) : undefined
      if (text !== undefined) return text
    }
    return undefined
  }
}

function unseal(key: MasterKey, purpose: Purpose, organization: string, sealed: Buffer): string | undefined {
  const salt = sealed.subarray(1 + KEY_ID_BYTES, HEAD_BYTES)
  const end = sealed.length - TAG_BYTES
  const decipher = createDecipheriv('aes-256-gcm', derive(key.bytes, salt, purpose, organization), NONCE, {
    authTagLength: TAG_BYTES,
  })
  decipher.setAAD(boundTo(purpose, key.id, organization))
  decipher.setAuthTag(sealed.subarray(end))
  const text = decipher.update(sealed.subarray(HEAD_BYTES, end))
  try {
    return Buffer.concat([text, decipher.final()]).toString('utf8')
  } catch {
    // The tag does not match: somebody else sealed the bytes, or they were changed.
    return undefined
  }
}

function derive(master: Uint8Array, salt: Uint8Array, purpose: Purpose, organization: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', master, salt, `${purpose}|${VERSION}|${organization}`, KEY_BYTES))
}

/**
 * What the tag covers besides the ciphertext. The organization is last, so that its characters cannot imitate another
 * field.
 */
function boundTo(purpose: Purpose, keyId: Buffer, organization: string): Buffer {
  return Buffer.from(`${purpose}|${VERSION}|${keyId.toString('hex')}|${organization}`)
}

function masterKey(base64: string, index: number): MasterKey {
  const bytes = Buffer.from(base64, 'base64')
  if (bytes.length !== KEY_BYTES) throw new Error(`key ${index} is not ${KEY_BYTES} bytes in base64`)
  const id = createHash('sha256').update('key id').update(bytes).digest().subarray(0, KEY_ID_BYTES)
  return { bytes, id }
}
