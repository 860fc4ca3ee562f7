/** The tokens of a document: its pages, found without a parser, in the vendors' rules of thumb. */

import type { Conversation } from '../core/conversation.ts'
import { isTextType, PDF } from '../core/document-types.ts'
import * as Kind from '../core/entry-kinds.ts'
import { TextTokens } from './text-tokens.ts'

/** Anthropic documents 1,500 to 3,000 tokens a page of a PDF; the other vendors count fewer. */
const TOKENS_A_PAGE = 3000
/** No vendor takes more pages. */
const PAGES_MAX = 1000
/** Page objects and trees that are looked at: a document may hold a million of their names. */
const FOUND_MAX = 20_000
/** The bytes of a page, if a document does not say how many it has. */
const BYTES_A_PAGE = 32_768
/** A document that only the provider sees counts as one of ten pages. */
export const REMOTE_DOCUMENT_TOKENS = 10 * TOKENS_A_PAGE

/** Of one in base64. Text counts as text, anything else by its pages. */
export function documentTokens(conversation: Conversation, entry: number): number {
  const type = conversation.companionOf(entry, Kind.MEDIA_TYPE)
  const name = type < 0 ? PDF : conversation.textAt(type)
  const bytes = Buffer.from(conversation.textAt(entry), 'base64')
  if (isTextType(name)) {
    const tokens = new TextTokens(bytes.length)
    tokens.add(bytes.toString())
    return Math.ceil(tokens.tokens)
  }
  return TOKENS_A_PAGE * (name === PDF ? pdfPages(bytes) : pagesBySize(bytes.length))
}

function pagesBySize(bytes: number): number {
  return Math.min(PAGES_MAX, Math.max(1, Math.ceil(bytes / BYTES_A_PAGE)))
}

/**
 * The pages of a PDF: the most of what its trees of pages count, its page objects, and what its head states for fast
 * viewing on the web. PDFs may have all of these within compressed streams, which are not read: then by the size.
 */
function pdfPages(bytes: Buffer): number {
  const text = bytes.toString('latin1')
  let pages = 0
  let counted = 0
  let found = 0
  for (const [, count, ofTree] of text.matchAll(/\/Count (\d{1,6})(?!\d)|\/Type\s?\/Page(s?)(?![A-Za-z])/g)) {
    if (++found > FOUND_MAX) break
    if (count !== undefined) counted = Math.max(counted, Number(count))
    else if (ofTree === '') pages++
  }
  pages = Math.max(pages, counted)
  const [, linear = '0'] = /\/Linearized[\s\S]{0,256}?\/N (\d{1,6})(?!\d)/.exec(text.slice(0, 2048)) ?? []
  pages = Math.max(pages, Number(linear))
  return pages === 0 ? pagesBySize(bytes.length) : Math.min(pages, PAGES_MAX)
}
