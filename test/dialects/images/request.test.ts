import { describe, expect, test } from 'bun:test'
import { CallerError } from '../../../src/core/caller-error.ts'
import type { ImageRequest } from '../../../src/core/image-request.ts'
import type { JsonObject } from '../../../src/core/json.ts'
import { imagesBody, imagesEvents } from '../../../src/dialects/images/answer.ts'
import { acceptImages as acceptBytes, acceptImageForm } from '../../../src/dialects/images/request.ts'
import type { FormPart } from '../../../src/wire/multipart.ts'
import { bytesOf, joined, textOf } from '../../support/bytes.ts'

const acceptImages = (kind: 'generations' | 'edits', body: object) =>
  acceptBytes(kind, bytesOf(JSON.stringify(body)), { imageUrls: 'public', metadata: 'forbidden' })
const base = { model: 'painter', prompt: 'a weir' }

function refusal(run: () => unknown): readonly [string, string | undefined] {
  try {
    run()
    return ['none', undefined]
  } catch (error) {
    if (!(error instanceof CallerError)) throw error
    return [error.kind, error.detail.param]
  }
}

function sent(request: ImageRequest): unknown {
  const { content, contentType } = request.body('upstream')
  expect(contentType).toBe('application/json')
  return JSON.parse(textOf(joined(content)))
}

function form(fields: Readonly<Record<string, string>>, ...files: readonly string[]): FormPart[] {
  return [
    ...Object.entries(fields).map(([name, value]) => ({ name, content: bytesOf(value) })),
    ...files.map((name) => ({ name, filename: 'a.png', contentType: 'image/png', content: bytesOf('PNG') })),
  ]
}

async function sentForm(request: ImageRequest): Promise<readonly (readonly [string, string])[]> {
  const { content, contentType } = request.body('upstream')
  const read = await new Request('http://a', {
    method: 'POST',
    headers: { 'content-type': contentType },
    body: joined(content),
  }).formData()
  return Promise.all(
    [...read].map(async ([name, value]) => [name, typeof value === 'string' ? value : await value.text()] as const),
  )
}

describe('JSON', () => {
  test('generations send the listed fields under the provider’s model name, without nulls and other fields', () => {
    const request = acceptImages('generations', {
      ...base,
      n: 3,
      size: '1024x1024',
      quality: 'low',
      background: 'opaque',
      output_format: 'png',
      output_compression: 80,
      moderation: 'low',
      response_format: 'b64_json',
      style: 'vivid',
      user: null,
      stream: true,
      partial_images: 2,
      extra_body: { a: 1 },
      ['__proto__']: { b: 1 },
    })
    expect(sent(request)).toEqual({
      ...base,
      model: 'upstream',
      n: 3,
      size: '1024x1024',
      quality: 'low',
      background: 'opaque',
      output_format: 'png',
      output_compression: 80,
      moderation: 'low',
      response_format: 'b64_json',
      style: 'vivid',
    })
    expect(request).toMatchObject({ images: 3, inputs: 0, stream: true, size: '1024x1024', quality: 'low' })
  })

  test('the sent body is a view of the caller’s bytes', () => {
    const bytes = bytesOf(JSON.stringify({ ...base, images: [{ image_url: 'data:,' }] }))
    const { content } = acceptBytes('edits', bytes, { imageUrls: 'public', metadata: 'forbidden' }).body('upstream')
    expect([...content].filter(({ buffer }) => buffer === bytes.buffer).map(textOf)).toEqual([
      '"prompt":"a weir"',
      '"images":[{"image_url":"data:,"}]',
    ])
  })

  test('edits send the fields that providers may receive', () => {
    const body = { ...base, images: [{ image_url: 'data:,' }], mask: { image_url: 'data:,' }, input_fidelity: 'high' }
    const request = acceptImages('edits', { ...body, stream: false })
    expect(sent(request)).toEqual({ ...body, model: 'upstream' })
    expect(request).toMatchObject({ images: 1, inputs: 1, stream: false })
  })

  const strange = [
    '__proto__',
    'constructor',
    'prototype',
    'a-b',
    'a.b',
    ' ',
    '',
    'größe',
    'x'.repeat(65),
    'y'.repeat(2000),
  ]

  test('edits leave out names that are those of no field', () => {
    const body = { ...base, images: [{ image_url: 'data:,' }], strength: 1, Seed_2: 3 }
    const all = Object.entries(body).concat(strange.map((name) => [name, { polluted: true }] as never))
    const text = `{${all.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join()}}`
    expect(sent(acceptBytes('edits', bytesOf(text), { imageUrls: 'public', metadata: 'forbidden' }))).toEqual({
      ...body,
      model: 'upstream',
    })
  })

  test('and so do forms', async () => {
    const keyed = ['image[__proto__]', 'a[constructor]', 'a[b][prototype]', 'a[b'] as const
    const fields = Object.entries({ ...base, strength: '1' }).concat([...strange, ...keyed].map((name) => [name, 'x']))
    const parts = fields.map(([name, value]) => ({ name, content: bytesOf(String(value)) }))
    const image = { name: 'image[]', filename: 'a.png', contentType: 'image/png', content: bytesOf('PNG') }
    const names = (
      await sentForm(acceptImageForm([...parts, image], { imageUrls: 'public', metadata: 'forbidden' }))
    ).map(([name]) => name)
    expect(names).toEqual(['model', 'prompt', 'strength', 'image[]'])
  })

  const refused: readonly (readonly [name: string, body: JsonObject, failure: string, param: string | undefined])[] = [
    ['no model', { prompt: 'a' }, 'missing_field', 'model'],
    ['an empty model', { ...base, model: '' }, 'invalid_field', 'model'],
    ['a model that is no string', { ...base, model: 1 }, 'invalid_field', 'model'],
    ['no prompt', { model: 'a' }, 'missing_field', 'prompt'],
    ['a null prompt', { ...base, prompt: null }, 'invalid_field', 'prompt'],
    ['n of 0', { ...base, n: 0 }, 'invalid_field', 'n'],
    ['n of 11', { ...base, n: 11 }, 'invalid_field', 'n'],
    ['half an n', { ...base, n: 1.5 }, 'invalid_field', 'n'],
    ['n as text', { ...base, n: '2' }, 'invalid_field', 'n'],
    ['a forbidden field, null too', { ...base, metadata: null }, 'forbidden_field', 'metadata'],
    ['a forbidden field before a missing one', { api_base: 1 }, 'forbidden_field', 'api_base'],
  ]
  test.each(refused)('%s is refused', (_, body, failure, param) => {
    for (const kind of ['generations', 'edits'] as const) {
      expect(refusal(() => acceptImages(kind, body))).toEqual([failure, param])
    }
  })
})

describe('a form', () => {
  test('is forwarded part by part, with the provider’s model name in place of the caller’s', async () => {
    const fields = { ...base, n: '2', size: 'auto', stream: 'true', partial_images: '1', input_fidelity: 'high' }
    const request = acceptImageForm(form(fields, 'image[]', 'image[]', 'mask'), {
      imageUrls: 'public',
      metadata: 'forbidden',
    })
    expect(await sentForm(request)).toEqual([
      ['model', 'upstream'],
      ['prompt', 'a weir'],
      ['n', '2'],
      ['size', 'auto'],
      ['input_fidelity', 'high'],
      ['image[]', 'PNG'],
      ['image[]', 'PNG'],
      ['mask', 'PNG'],
    ])
    expect(request).toMatchObject({ model: 'painter', images: 2, inputs: 2, stream: true, size: 'auto' })
  })

  test('of two models the last is used, and one is sent', async () => {
    const request = acceptImageForm([...form({ ...base, model: 'first' }), ...form({ model: 'second' })], {
      imageUrls: 'public',
      metadata: 'forbidden',
    })
    expect(request.model).toBe('second')
    expect((await sentForm(request)).filter(([name]) => name === 'model')).toEqual([['model', 'upstream']])
  })

  test('files are views of the caller’s bytes', () => {
    const parts = form(base, 'image')
    const { content } = acceptImageForm(parts, { imageUrls: 'public', metadata: 'forbidden' }).body('upstream')
    const file = parts.at(-1)?.content
    expect(
      [...content].some(({ buffer, byteOffset }) => buffer === file?.buffer && byteOffset === file.byteOffset),
    ).toBe(true)
  })

  const refused: readonly (readonly [string, Readonly<Record<string, string>>, string, string])[] = [
    ['no model', { prompt: 'a' }, 'missing_field', 'model'],
    ['no prompt', { model: 'a' }, 'missing_field', 'prompt'],
    ['n of 11', { ...base, n: '11' }, 'invalid_field', 'n'],
    ['n that is no number', { ...base, n: '1e0' }, 'invalid_field', 'n'],
    ['n that is empty', { ...base, n: '' }, 'invalid_field', 'n'],
    ['a stream that is neither', { ...base, stream: '1' }, 'invalid_field', 'stream'],
    ['a forbidden field', { ...base, timeout: '1' }, 'forbidden_field', 'timeout'],
    ['a forbidden object, as SDKs flatten it', { ...base, 'metadata[a]': '1' }, 'forbidden_field', 'metadata'],
  ]
  test.each(refused)('%s is refused', (_, fields, failure, param) => {
    expect(refusal(() => acceptImageForm(form(fields), { imageUrls: 'public', metadata: 'forbidden' }))).toEqual([
      failure,
      param,
    ])
  })

  test('every forbidden field is named, each once', () => {
    const fields = { ...base, api_key: '1', 'metadata[a]': '1', 'metadata[b]': '2' }
    expect(() => acceptImageForm(form(fields), { imageUrls: 'public', metadata: 'forbidden' })).toThrow(
      "Forbidden fields: 'api_key', 'metadata'.",
    )
  })
})

describe('an answer', () => {
  const body = {
    created: 5,
    data: [{ b64_json: 'AA==' }, { b64_json: 'AQ==' }],
    size: 'auto',
    usage: { input_tokens: 1 },
  }
  const text = `${JSON.stringify(body)} `

  test('is sent byte for byte, except for a name of the model', () => {
    expect(imagesBody({ text, body, model: 'painter' })).toBe(text)
    expect(JSON.parse(imagesBody({ text, body: { ...body, model: 'up' }, model: 'painter' }))).toEqual({
      ...body,
      model: 'painter',
    })
  })

  test('is one completed event per image if events were requested, with the usage in the last', () => {
    const events = imagesEvents('edits', { text, body, model: 'painter' }).split('\n\n')
    expect(events.pop()).toBe('')
    const type = 'image_edit.completed'
    expect(events.map((event) => event.split('\n')[0])).toEqual([`event: ${type}`, `event: ${type}`])
    const common = { type, created_at: 5, size: 'auto' }
    expect(events.map((event) => JSON.parse(event.split('\ndata: ')[1] ?? ''))).toEqual([
      { ...common, b64_json: 'AA==' },
      { ...common, b64_json: 'AQ==', usage: { input_tokens: 1 } },
    ])
  })
})
