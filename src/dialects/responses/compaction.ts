/**
 * Compaction: the instruction that makes a model summarise, the summary sealed into an item that only this organisation can send back,
 * and the summary restored. The sealing keys stay in here.
 */

import { createCipheriv, createDecipheriv, createHash, hkdfSync } from 'node:crypto'
import { isObject, type JsonObject, type JsonValue } from '../../core/json.ts'
import { ProviderError } from '../../core/provider-error.ts'
import { mintId } from '../answer-ids.ts'

/** Appended to a conversation that is to be summarised, as the user's last message. */
export const SUMMARY_INSTRUCTION = `Write a summary of this conversation up to here. It will take the place of the conversation: whoever continues from it sees nothing else of what was said.

Keep what is needed to go on without asking again:
- what the user wants, in the user's own terms, with every constraint and preference;
- what was done, and what came of it, tool results included;
- facts that later steps rely on, exactly: names, paths, identifiers, numbers, commands, error messages, code that must not change;
- decisions and their reasons, and what was tried and given up;
- what is unfinished, and the next step.

Leave out greetings, repetition and anything that no longer matters. Do not call tools, do not continue the work, do not address the user. Answer with the summary alone.`

/** A summary longer than this, in UTF-16 units, ends there: some 130,000 tokens, more than a model writes. */
export const SUMMARY_CHARS_MAX = 512 * 1024

const VERSION = 1
const PREFIX = 'gw1.'
const KEY_BYTES = 32
const KEY_ID_BYTES = 4
const SALT_BYTES = 16
const TAG_BYTES = 16
const HEAD_BYTES = 1 + KEY_ID_BYTES + SALT_BYTES
/** Each key is used for one message, so the nonce may be constant. */
const NONCE = new Uint8Array(12)
/** A longer item is none of ours: the longest summary takes at most six bytes a unit in JSON, and base64 a third more. */
const SEALED_CHARS_MAX = 8 * SUMMARY_CHARS_MAX + 1024

/** What a sealed text is for; one sealed for one purpose does not open for another. */
type Purpose = 'compaction' | 'item'

interface MasterKey {
  readonly bytes: Uint8Array
  readonly id: Buffer
}

/**
 * Seals texts for one organisation: AES-256-GCM under a fresh key a message, derived by HKDF-SHA256 from a master key and a random salt.
 * Layout: version (1 byte), id of the master key (4), salt (16), ciphertext, tag (16). Independent of the caller's API key and of the provider.
 */
export class Sealer {
  private readonly keys: readonly MasterKey[]
  private readonly first: MasterKey

  /** Master keys, 32 bytes in base64 each: the first seals, all open. Throws where there is none or one has another length. */
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

  /** The text, or undefined where these bytes were not sealed for this purpose and organisation under one of the keys, whatever the cause. */
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
    // The tag does not match. That is an answer, not an error, and why it does not is nobody's business.
    return undefined
  }
}

function derive(master: Uint8Array, salt: Uint8Array, purpose: Purpose, organization: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', master, salt, `${purpose}|${VERSION}|${organization}`, KEY_BYTES))
}

/** What the tag covers besides the ciphertext. The organisation stands last, whatever characters it has. */
function boundTo(purpose: Purpose, keyId: Buffer, organization: string): Buffer {
  return Buffer.from(`${purpose}|${VERSION}|${keyId.toString('hex')}|${organization}`)
}

function masterKey(base64: string, index: number): MasterKey {
  const bytes = Buffer.from(base64, 'base64')
  if (bytes.length !== KEY_BYTES) throw new Error(`key ${index} is not ${KEY_BYTES} bytes in base64`)
  const id = createHash('sha256').update('key id').update(bytes).digest().subarray(0, KEY_ID_BYTES)
  return { bytes, id }
}

/**
 * The one item that answers a compaction. Throws a `ProviderError` where the model wrote no summary (a filter, tool calls alone): the caller drops
 * its conversation for this item.
 */
export function compactionItem(sealer: Sealer, organization: string, summary: string): JsonObject {
  if (summary.trim() === '') throw new ProviderError('broken', 'the model wrote no summary')
  const body = JSON.stringify({ summary: summary.slice(0, SUMMARY_CHARS_MAX) })
  const sealed = sealer.seal('compaction', organization, body)
  return { id: mintId('cmp'), type: 'compaction', encrypted_content: PREFIX + sealed.toString('base64url') }
}

/** The summary of an item's `encrypted_content`; undefined where it is not what this organisation was sent, unchanged. */
export function openSummary(sealer: Sealer, organization: string, content: unknown): string | undefined {
  if (typeof content !== 'string' || content.length > SEALED_CHARS_MAX || !content.startsWith(PREFIX)) return undefined
  const encoded = content.slice(PREFIX.length)
  const sealed = Buffer.from(encoded, 'base64url')
  // The decoder skips what is not base64url; what comes back must be what was sent.
  if (sealed.toString('base64url') !== encoded) return undefined
  const body = sealer.open('compaction', organization, sealed)
  if (body === undefined) return undefined
  const opened: JsonValue = JSON.parse(body)
  const summary = isObject(opened) ? opened['summary'] : undefined
  return typeof summary === 'string' ? summary : undefined
}

/**
 * The restored summary as the text of a user message. It is a model's output: as a system message, what somebody smuggled into the old
 * conversation would speak with the operator's voice.
 */
export function summaryText(summary: string): string {
  return `This is a summary of the earlier part of this conversation, which it takes the place of.\n\n<conversation_summary>\n${summary}\n</conversation_summary>`
}
