/**
 * Image URLs sent to providers: in any spelling, private addresses and schemes other than https are rejected, unless
 * the operator allows them.
 */

import { describe, expect, test } from 'bun:test'
import { CallerError } from '../../src/core/caller-error.ts'
import type { JsonObject } from '../../src/core/json.ts'
import { acceptChat, UNPARSED } from '../../src/dialects/chat/request.ts'
import { checkImageUrl, type ImageUrls } from '../../src/dialects/image-url.ts'
import { acceptImageForm, acceptImages } from '../../src/dialects/images/request.ts'
import { readRequestBody } from '../../src/wire/request-body.ts'
import { bytesOf } from '../support/bytes.ts'
import { visible } from '../support/literal.ts'
import { property } from '../support/random.ts'

/** The field that the error names; undefined if the URL is accepted. */
function fault(accept: () => unknown): string | undefined {
  try {
    accept()
    return undefined
  } catch (error) {
    if (!(error instanceof CallerError)) throw error
    expect(error.row.status).toBe(400)
    return error.detail.param
  }
}

const acceptBody = (body: JsonObject, allowed: ImageUrls) =>
  acceptChat(readRequestBody(Buffer.from(JSON.stringify(body)), UNPARSED), { imageUrls: allowed })

const isRefused = (url: string, allowed: ImageUrls = 'public') =>
  fault(() => checkImageUrl(url, 'field', allowed)) !== undefined

describe('refused', () => {
  test.each([
    'http://example.com/a.png',
    'ftp://example.com/a.png',
    'file:///etc/passwd',
    'https://localhost/a.png',
    'https://LOCALHOST./a.png',
    'https://a.localhost/',
    'https://printer/a.png',
    'https://vllm.svc.cluster.local:8000/',
    'https://metadata.google.internal/computeMetadata/v1/',
    'https://router.home.arpa/',
    'https://127.0.0.1/',
    'https://127.1/',
    'https://2130706433/',
    'https://0x7f.0.0.1/',
    'https://0177.0.0.1/',
    'https://0x7f000001/',
    'https://%31%32%37.0.0.1/',
    'https://１２７.0.0.1/',
    'https://127。0。0。1/',
    'https://10.1.2.3/',
    'https://172.31.255.255/',
    'https://192.168.0.1/',
    'https://169.254.169.254/latest/meta-data/',
    'https://100.64.0.1/',
    'https://0.0.0.0/',
    'https://255.255.255.255/',
    'https://224.0.0.1/',
    'https://[::1]/',
    'https://[::]/',
    'https://[::ffff:127.0.0.1]/',
    'https://[::ffff:a01:203]/',
    'https://[::127.0.0.1]/',
    'https://[64:ff9b::7f00:1]/',
    'https://[fe80::1]/',
    'https://[fd00:ec2::254]/',
    'https://[fc00::1]/',
    'https://[ff02::1]/',
    'https://[2002:7f00:1::]/',
    'https://[2001:db8::1]/',
    'https://user:secret@example.com/',
    'https://user@example.com/',
    'https://example.com\\@10.0.0.1/',
    'https:\\\\10.0.0.1/',
    'https://exam\nple.com/',
    'https:/10.0.0.1/',
    'https:10.0.0.1',
    ' https://example.com/',
    'https://',
    'https://example..com/',
    'https://256.256.256.256/',
    'https://example.com../',
    `https://${'a.'.repeat(126)}example.com/`,
    `https://a${'.'.repeat(1_000_000)}x/`,
    `https://${'ü.'.repeat(1_000_000)}example.com/`,
  ])('%j', (url) => expect(isRefused(url)).toBe(true))
})

describe('accepted', () => {
  test.each([
    'https://example.com/a.png',
    'HTTPS://Example.COM:8443/a%20b.png?x=http://10.0.0.1/#y',
    'https://images.example.co.uk/@user/a.png',
    'https://bücher.example.net/a.png',
    'https://example.com./a.png',
    'https://8.8.8.8/a.png',
    'https://172.32.0.1/',
    'https://100.128.0.1/',
    'https://[2606:4700::1111]/',
    'https://10.example.com/',
    `https://${'a.'.repeat(120)}example.com/`,
    `https://example.com/${'a'.repeat(100_000)}`,
    `https://example.com?${'a'.repeat(100_000)}`,
  ])('%j', (url) => expect(isRefused(url)).toBe(false))

  test.each(['http://example.com/a.png', 'https://10.0.0.1/a.png', 'http://localhost:8000/a.png'])('any: %j', (url) =>
    expect(isRefused(url, 'any')).toBe(false),
  )

  test('any: only http and https', () => expect(isRefused('file:///etc/passwd', 'any')).toBe(true))
})

/** One number of an address as `inet_aton` reads it: decimal, octal or hexadecimal. */
const spellings = [String, (n: number) => `0${n.toString(8)}`, (n: number) => `0x${n.toString(16)}`] as const

property('law: no spelling of a private IPv4 address is accepted', 2000, (random) => {
  const [a, b, c, d] = [random.below(256), random.below(256), random.below(256), random.below(256)]
  const [first, second] = random.pick<readonly [number, number]>([
    [10, b],
    [127, b],
    [0, b],
    [169, 254],
    [192, 168],
    [172, 16 + (b % 16)],
    [100, 64 + (b % 64)],
    [224 + (a % 32), b],
  ])
  const spell = () => random.pick(spellings)
  const parts = random.pick<readonly number[]>([
    [first, second, c, d],
    [first, second, c * 256 + d],
    [first, second * 65_536 + c * 256 + d],
    [first * 16_777_216 + second * 65_536 + c * 256 + d],
  ])
  const v4 = parts.map((part) => spell()(part)).join('.')
  const v6 = `[::ffff:${first.toString(16)}${second.toString(16).padStart(2, '0')}:${(c * 256 + d).toString(16)}]`
  const host = random.pick([v4, v4, v6])
  const port = random.pick(['', ':443', ':8000'])
  expect([host, isRefused(`https://${host}${port}${random.pick(['', '/', '/a.png', '?x', '#y'])}`)]).toEqual([
    host,
    true,
  ])
})

const PRIVATE = 'https://10.0.0.1/a.png'
const PUBLIC = 'https://example.com/a.png'

describe('in every field of a body that may contain a URL', () => {
  const chatFault = (part: JsonObject, allowed: ImageUrls = 'public') =>
    fault(() => acceptBody({ model: 'm', messages: [{ role: 'user', content: [part] }] }, allowed))

  test('Chat Completions: images, files and sound', () => {
    const image = (url: string) => ({ type: 'image_url', image_url: { url } })
    const file = (data: string) => ({ type: 'file', file: { file_data: data } })
    expect(chatFault(image(PRIVATE))).toBe('messages[0].content[0].image_url.url')
    expect(chatFault({ type: 'image_url', image_url: PRIVATE })).toBe('messages[0].content[0].image_url.url')
    expect(chatFault(image(PRIVATE), 'any')).toBeUndefined()
    expect(chatFault(image(PUBLIC))).toBeUndefined()
    expect(chatFault(file(PRIVATE))).toBe('messages[0].content[0].file.file_data')
    expect(chatFault(file('data:application/pdf;base64,AAAA'))).toBeUndefined()
    const sound = (data: string) => ({ type: 'input_audio', input_audio: { data, format: 'wav' } })
    expect(chatFault(sound(PRIVATE))).toBe('messages[0].content[0].input_audio.data')
    expect(chatFault(sound(PRIVATE), 'any')).toBeUndefined()
    expect(chatFault(sound('UklGRg=='))).toBeUndefined()
  })

  test('Chat Completions: only known fields of files and audio are sent to a provider', () => {
    const more = { url: PRIVATE, file_id: 'file-abc', nested: { url: PRIVATE } }
    const content: JsonObject[] = [
      { type: 'file', file: { file_data: 'AAAA', filename: 'a.pdf', ...more }, ...more },
      { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav', ...more }, ...more },
    ]
    const { request } = acceptBody({ model: 'm', messages: [{ role: 'user', content }] }, 'public')
    expect(visible(request).messages[0]?.parts).toEqual([
      { type: 'native', json: { type: 'file', file: { filename: 'a.pdf', file_data: 'AAAA' } } },
      { type: 'native', json: { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } } },
    ])
  })

  const edit = (more: JsonObject) =>
    fault(() =>
      acceptImages('edits', bytesOf(JSON.stringify({ model: 'm', prompt: PRIVATE, ...more })), {
        imageUrls: 'public',
        metadata: 'forbidden',
      }),
    )

  test.each<[string | undefined, JsonObject]>([
    ['images[0].image_url', { images: [{ image_url: PRIVATE }] }],
    ['images[1].image_url.url', { images: [{ image_url: PUBLIC }, { image_url: { url: PRIVATE } }] }],
    ['images[0].file_id', { images: [{ file_id: 'file-abc' }] }],
    ['mask.file_id', { mask: { file_id: 'file-abc' } }],
    ['mask.image_url', { mask: { image_url: 'http://example.com/' } }],
    ['image', { image: PRIVATE }],
    ['image[0]', { image: [PRIVATE] }],
    ['file_ids[0]', { file_ids: ['file-abc'] }],
    ['reference.url', { reference: { url: 'gs://bucket/a.png' } }],
    [undefined, { images: [{ image_url: PUBLIC }, { image_url: 'data:image/png;base64,AAAA', file_id: null }] }],
    [undefined, { user: 'https://10.0.0.1/me', size: '1024x1024', quality: 'high' }],
  ])('edits as JSON: %p', (param, more) => expect(edit(more)).toBe(param))

  test('edits as JSON: a duplicate name is not forwarded', () => {
    const text = `{"model":"m","prompt":"x","images":[{"image_url":"${PRIVATE}","image\\u005furl":"${PUBLIC}"}]}`
    expect(fault(() => acceptImages('edits', bytesOf(text), { imageUrls: 'public', metadata: 'forbidden' }))).toBe(
      'images',
    )
    const image = `{"image_url":"${PUBLIC}?a:b","x":{"y:":[1,{"z":2}]}}`
    const quoted = `{"model":"m","prompt":"a: \\"b\\":","images":[${image}]}`
    expect(
      fault(() => acceptImages('edits', bytesOf(quoted), { imageUrls: 'public', metadata: 'forbidden' })),
    ).toBeUndefined()
  })

  const form = (name: string, text: string) =>
    fault(() =>
      acceptImageForm(
        [
          { name: 'model', content: bytesOf('m') },
          { name: 'prompt', content: bytesOf(PRIVATE) },
          { name, content: bytesOf(text) },
        ],
        { imageUrls: 'public', metadata: 'forbidden' },
      ),
    )

  test.each([
    ['images[0][file_id]', 'file-abc', true],
    ['mask[file_id]', 'file-abc', true],
    ['file_id', 'file-abc', true],
    ['file_ids[]', 'file-abc', true],
    ['images[0][image_url]', PRIVATE, true],
    ['image', `\n ${PRIVATE}`, true],
    ['images[0][image_url]', PUBLIC, false],
    ['user', PRIVATE, false],
    ['background', 'auto', false],
  ])('edits as a form: %s = %j', (name, text, refused) => expect(form(name, text)).toBe(refused ? name : undefined))
})
