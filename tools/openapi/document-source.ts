/** The text of `docs/openapi.json`, from the schemas and from what other files of the repository have already. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ErrorTexts } from './error-responses.ts'
import { openApiDocument } from './openapi-document.ts'
import type { Sources } from './operations.ts'

const ROOT = join(import.meta.dir, '../..')

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8')
}

/** The rows of the table of all codes: code, status, type, meaning, what to do. */
function errorTexts(): ErrorTexts {
  const rows = read('docs/errors.md')
    .split('\n')
    .filter((line) => /^\| `\w+`(?: \*)? \| \d{3} \|/.test(line))
    .map((line) =>
      line
        .slice(1, -1)
        .split('|')
        .map((cell) => cell.trim()),
    )
  return new Map(
    rows.map(([code = '', , , meaning = '', advice = '']) => [
      code.replace(/[` *]/g, ''),
      { meaning, advice: linkless(advice) },
    ]),
  )
}

/** Links of the page lead to other pages. */
function linkless(text: string): string {
  return text.replace(/\[([^\]]+)\]\([^)]+\)/g, '$1')
}

/** The streams and bodies of a short text, which tests hold the dialects to. */
function answers(): Sources['answers'] {
  const of = (dialect: string) => ({
    json: JSON.parse(read(`test/fixtures/callers/${dialect}/text.json`)),
    sse: read(`test/fixtures/callers/${dialect}/text.sse`),
  })
  return { chat: of('chat'), responses: of('responses'), messages: of('messages') }
}

export function openApiText(): string {
  return `${JSON.stringify(openApiDocument({ errorTexts: errorTexts(), answers: answers() }), null, 2)}\n`
}
