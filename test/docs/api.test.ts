/** The page about the API names every endpoint and every field in its own section. */

import { expect, test } from 'bun:test'
import { ChatBody } from '../../src/dialects/chat/schema.ts'
import { FORBIDDEN_FIELDS } from '../../src/dialects/forbidden-fields.ts'
import { IGNORED_FIELDS } from '../../src/dialects/ignored-fields.ts'
import { GENERATION_FIELDS } from '../../src/dialects/images/schema.ts'
import { MessagesBody } from '../../src/dialects/messages/schema.ts'
import { ResponsesBody } from '../../src/dialects/responses/schema.ts'
import { reportedError } from '../../src/providers/error-response.ts'
import { Gateway, KEY } from '../support/gateway.ts'
import { pageOf } from './pages.ts'

const page = pageOf('docs/api.md').text

function sectionOf(heading: string): string {
  const section = page.split(/^## /m).find((each) => each.startsWith(`${heading}\n`))
  if (section === undefined) throw new Error(`docs/api.md has no section ${heading}`)
  return section
}

/** The names that a section does not have. `text.format` is there as itself or as `text`. */
function missing(heading: string, names: Iterable<string>): readonly string[] {
  const section = sectionOf(heading)
  return [...names].filter((name) => !section.includes(`\`${name}\``) && !section.includes(`\`${name.split('.')[0]}\``))
}

const DIALECTS = [
  ['Chat Completions', 'chat', ChatBody],
  ['Responses', 'responses', ResponsesBody],
  ['Messages', 'messages', MessagesBody],
] as const

test.each(DIALECTS)('%s: every accepted and every ignored field', (heading, dialect, body) => {
  const names = [...Object.keys(body.properties), ...Object.keys(IGNORED_FIELDS[dialect])]
  // The options of a stream are documented with their member.
  expect(
    missing(
      heading,
      names.filter((name) => name !== 'stream_options'),
    ),
  ).toEqual([])
})

test('every field of image generations is on the page', () => {
  expect(missing('Images', GENERATION_FIELDS)).toEqual([])
})

test('every forbidden field is on the page', () => {
  expect(missing('All endpoints', FORBIDDEN_FIELDS)).toEqual([])
})

test('the codes of providers that are passed on are those that pass', () => {
  const [, list = ''] = /error\.code` is null:\n\n([\s\S]*?)\.\n/.exec(pageOf('docs/errors.md').text) ?? []
  const codes = [...list.matchAll(/`(\w+)`/g)].map(([, code = '']) => code)
  expect(codes.length).toBeGreaterThan(15)
  const passed = (code: string) => reportedError({ error: { message: 'm', code } }).detail.code
  expect(codes.filter((code) => passed(code) !== code)).toEqual([])
  expect(passed('an_inner_code')).toBeUndefined()
})

test('every endpoint of the tables exists', async () => {
  await using gateway = await Gateway.start({
    providers: { up: 'http://127.0.0.1:9' },
    models: { vectors: { targets: [{ provider: 'up', model: 'embed' }], supports: ['embeddings'] } },
  })
  const listed = (text: string) =>
    [...text.matchAll(/`(GET|POST) (\/[\w/]*)`/g)].map(([, method = '', path = '']) => ({ method, path }))
  const ask = async (base: string, { method, path }: { method: string; path: string }) => {
    const body = method === 'POST' ? '{}' : null
    const { status } = await fetch(`${base}${path}`, { method, body, headers: { 'x-api-key': KEY } })
    return { method, path, exists: status !== 404 && status !== 405 }
  }
  const found = [
    ...(await Promise.all(listed(page).map((each) => ask(gateway.url, each)))),
    ...(await Promise.all(listed(sectionOfAdmin()).map((each) => ask(gateway.adminUrl, each)))),
  ]
  expect(found.length).toBeGreaterThan(12)
  expect(found.filter(({ exists }) => !exists)).toEqual([])
})

function sectionOfAdmin(): string {
  return (
    pageOf('docs/operating.md')
      .text.split(/^## /m)
      .find((each) => each.startsWith('Health and metrics')) ?? ''
  )
}
