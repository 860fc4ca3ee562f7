/** What a caller sees of a provider's message: what helps to fix a request stays, the operator's secrets go. */

import { describe, expect, test } from 'bun:test'
import { scrub } from '../../src/providers/scrub.ts'
import { property, type Random } from '../support/random.ts'

describe('removed', () => {
  test.each([
    ['the key sk-proj-abc***xyz is wrong', 'abc'],
    ['key=abcd1234efgh', 'abcd'],
    ['api_key: hunter2hunter2', 'hunter'],
    ["x-api-key 'hunter2hunter2'", 'hunter'],
    ['access token: ab12.cd34.ef56', 'cd34'],
    ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_123', 'eyJ'],
    ['signed with wJalrXUtnrFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY', 'MDENG'],
    ['vllm-worker-3:8000 refused', 'worker'],
    ['host vllm-0.vllm.prod.svc:8000', 'vllm'],
    ['api.acme.tech rejects it', 'acme'],
    ['connect to [fe80::1ff:fe23:4567:890a]:80', 'fe'],
    ['connect to ::1', '::1'],
    ['connect to 2001:db8:0:0:0:0:0:1', 'db8'],
    ['projects/acme-prod/locations/us-central1 is not there', 'acme'],
    ['/var/lib/models/secret.gguf not found', 'secret'],
    ['Organization acme-ai exceeded its quota', 'acme'],
    ['http://localhost:8000/v1/chat?key=hunter', 'hunter'],
    ['http://localhost:8000/v1/chat?key=hunter', '8000'],
    ['POST http://[fd00::12]:8000/v1/private?x=hunter failed', 'private'],
    ['POST http://user:hunter@[fd00::12]:8000/v1/private failed', 'hunter'],
    ['see https://vllm.acme.zone/a(b)c?key=hunter.', 'hunter'],
    ['redirect=http%3A%2F%2Fvllm.acme.zone%3A8000%2Fprivate', 'private'],
    ['//vllm.acme.zone/private', 'acme'],
    ['vllm-0:8000/v1/private?key=hunter', 'hunter'],
    ['10.1.2.3:8000/private?x', 'private'],
    ['[::1]:8000/private', 'private'],
    ['connect ECONNREFUSED redis:6379', 'redis'],
    ['dial tcp vllm:8000: connection refused', 'vllm'],
    ['gpu3:8000 is down', 'gpu3'],
    ['getaddrinfo ENOTFOUND vllm', 'vllm'],
    ['fe80::1%eth0 is unreachable', 'eth0'],
    ['::ffff:10.0.0.7', '10.0'],
    ['gwk_laptop_abc', 'laptop'],
    ['Authorization: Bearer:hunter2', 'hunter'],
    ['token_sk-abcdef', 'abcdef'],
    ['key: hunter', 'hunter'],
    ['Incorrect API key provided: token hunterpassword', 'hunter'],
    ['the secret password is hunter', 'hunter'],
    ['secret: token-hunter', 'hunter'],
    ['key=hunter', 'hunter'],
    ['key "hunter"', 'hunter'],
    ['api-key is hunter', 'hunter'],
    ['the API key hunter is not known', 'hunter'],
    ['Incorrect API key provided: hunter. You can find your API key in the dashboard.', 'hunter'],
    ['Invalid token hunter', 'hunter'],
    ['invalid x-api-key: hunter', 'hunter'],
    ['{"secret":"hunter"}', 'hunter'],
    ["password 'hunter' does not match", 'hunter'],
    ['The password is hunter.', 'hunter'],
    ['client_secret=correct-horse-battery', 'horse'],
    ['APIKEY hunter', 'hunter'],
    ['my_api_key = hunter!', 'hunter'],
    ['access token was hunter', 'hunter'],
    ['missing secret: hunter', 'hunter'],
    ['The credential `hunter` was rejected', 'hunter'],
  ])('%s', (text, secret) => expect(scrub(text)).not.toContain(secret))
})

describe('kept', () => {
  test.each([
    "This model's maximum context length is 8192 tokens. However, you requested 10000 tokens (5000 in the messages).",
    "Invalid value: 'foo'. Supported values are: 'low', 'medium'.",
    'messages.3.content.0.type: Input should be "text"',
    '/messages/0/content must be a string',
    'max_tokens: 128000 is too large, max_tokens:4096 at most',
    'unknown key: temperature',
    'Unexpected token < in JSON at position 4',
    'std::invalid_argument at 12:30:45',
    'tool get_weather.v1 is unknown to gpt-4.1-mini',
    'The API deployment for this resource does not exist',
    'The organization must be verified before it may stream; the requested_model is unknown',
    'messages: at position:128 and tokens:4096, see keyboard_layout',
    'and/or, 3/4, a // b',
    'token limit exceeded',
    'API key is missing',
    'API key not valid. Please pass a valid API key.',
    'Incorrect API key provided. You can find your API key in the dashboard.',
    'The API key provided is invalid or has expired.',
    'invalid x-api-key',
    "Unrecognized key: 'temperature'",
    "Missing required key 'messages'",
    'Unexpected token } in JSON at position 4',
    "Unexpected token 'o' at position 1",
    'max_token: 4096 is above the token limit of 2048',
    'Input token count exceeds the maximum number of tokens allowed 131072.',
    'The input token count (131073) exceeds the maximum number of tokens allowed (131072).',
    'This key does not have access to model gpt-5; the token budget is 5 a day.',
    'Your API key has been disabled',
    'key must be a string',
    'The secret was not found',
    'Please reduce the length of the messages; each token counts.',
    'Wrong password',
    'no access token for the service account key: invalid_grant: Invalid JWT Signature.',
  ])('%s', (text) => expect(scrub(text)).toBe(text))
})

test('is fast on texts that make patterns backtrack', () => {
  for (const piece of ['a', 'a-', 'a.', 'a:', '1:', 'ab1', 'key ', '/var/', 'A1/'])
    expect(scrub(piece.repeat(10_000)).length).toBeLessThanOrEqual(500)
})

/** A word that occurs nowhere else, so that any remaining part of a secret is found. */
function canary(random: Random): string {
  const letters = 'qxzjkvwy'
  return Array.from({ length: 6 }, () => letters[random.below(letters.length)]).join('') + random.between(10, 99)
}

interface Secret {
  readonly text: string
  /** What must not remain of it. */
  readonly parts: readonly string[]
}

function address(random: Random): Secret {
  const [label, path, query, user] = [canary(random), canary(random), canary(random), canary(random)]
  const port = String(random.between(1024, 65_535))
  const v6 = `fd${random.between(10, 99)}:${random.between(1000, 9999)}::${random.between(1000, 9999)}`
  const v4 = `10.${random.below(256)}.${random.below(256)}.${random.between(10, 255)}`
  const [host, hostParts] = random.pick<readonly [string, readonly string[]]>([
    [`${label}.svc.cluster.local`, [label]],
    [`${label}.example.com`, [label]],
    [`gpu-${label}`, [label]],
    [label, [label]],
    [v4, [v4]],
    [`[${v6}]`, [v6]],
    ['localhost', ['localhost']],
  ])
  const tail = random.pick(['', `/${path}`, `/v1/${path}/x?key=${query}`, `?${query}=1`, `/a(${path})/${query}`])
  const kept = [...hostParts, `:${port}`, path, query, user]
  const scheme = random.pick(['http', 'https', 'grpc', 'redis', 'postgresql+x'])
  const login = random.pick(['', `${user}@`, `${user}:${query}@`])
  return random.chance(0.5)
    ? { text: `${scheme}://${login}${host}:${port}${tail}`, parts: kept }
    : { text: `${host}:${port}${tail}`, parts: kept }
}

/** A host without a port. */
function bare(random: Random): Secret {
  const label = canary(random)
  const v6 = `fd${random.between(10, 99)}:${random.between(1000, 9999)}::${random.between(1000, 9999)}`
  const v4 = `10.${random.below(256)}.${random.below(256)}.${random.between(10, 255)}`
  const text = random.pick([
    `${label}.internal`,
    `api.${label}.com`,
    v4,
    v6,
    `[${v6}]`,
    `::ffff:${v4}`,
    `${v4}/${label}`,
  ])
  return { text, parts: [label, v4, v6] }
}

function key(random: Random): Secret {
  const body = `${canary(random)}${canary(random)}`
  const text = random.pick([
    `sk-${body}`,
    `sk-proj-${body}`,
    `sk_live_${body}`,
    `gwk_laptop_${body}`,
    `AKIA${body.toUpperCase()}`,
    `AIza${body}-_x`,
    `Bearer ${body}`,
    `bearer ${body}`,
    `Basic ${body}==`,
    `ghp_${body}`,
    `api_key=${body}`,
    `x-api-key: ${body}`,
    `eyJ${body}.${body}.x`,
  ])
  return { text, parts: [body, body.toUpperCase()] }
}

property('law: nothing of an address or a key remains, at any position', 3000, (random) => {
  const secrets = Array.from({ length: random.between(1, 3) }, () => random.pick([address, address, bare, key])(random))
  const wrap = (text: string) =>
    random.pick([
      text,
      `"${text}"`,
      `'${text}'`,
      `(${text})`,
      `<${text}>`,
      `\`${text}\``,
      `${text}.`,
      `${text},`,
      `[${text}]`,
      `${text};`,
    ])
  const text = secrets
    .map(
      (secret) =>
        `${random.pick(['The upstream', 'Error: cannot reach', 'tried,', 'with\n', '{"at": '])} ${wrap(secret.text)}`,
    )
    .join(random.pick([' and ', '\n', ' – ']))
  const clean = scrub(`Request refused. ${text} (try later)`)
  expect(clean).toStartWith('Request refused. ')
  for (const part of secrets.flatMap(({ parts }) => parts)) {
    if (clean.includes(part))
      throw new Error(`${JSON.stringify(part)} of ${JSON.stringify(text)} remains in ${JSON.stringify(clean)}`)
  }
})
