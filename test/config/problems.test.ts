/** Every kind of mistake in the file is reported with exactly one line. */

// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references of the configuration file are written so

import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { didYouMean, nearest, pathText } from '../../src/config/problems.ts'
import { PROVIDER_DIALECTS } from '../../src/config/provider-dialects.ts'
import { BASE, edited, problems } from './fixture.ts'

const GPT = 'targets: [{ provider: openai, model: gpt-1 }]'
const CI = '{ id: ci, key: 0123456789abcdef0 }'
const HASH = 'ff361e9c224c8a0c4720d375ba4c3f8c2034858b80bb374f8d25203452f2f38c'
const CLAUDE_PRICE = 'price: { input: 3, output: 15 }'
const OPENAI = 'openai: { dialect: openai, api_key: "${OPENAI_API_KEY}" }'
const ANTHROPIC = 'anthropic: { dialect: anthropic, api_key: x }'

/** A fixture as a YAML string. */
const pem = (name: string) => JSON.stringify(readFileSync(join(import.meta.dir, '../fixtures/tls', name), 'utf8'))

/** What, the text that is replaced ('' = insert before the file), its replacement, and the expected problems. */
const table: readonly [string, string, string, ...string[]][] = [
  // Shape.
  ['unknown key', '', 'listn: { port: 1 }', 'listn: unknown key (did you mean "listen"?)'],
  ['tls of stored items without a Redis', '', 'responses: { tls: {} }', 'responses.tls: needs responses.redis'],
  [
    'only some servers of stored items use TLS',
    '',
    'responses: { redis: { cluster: ["redis://a:1", "rediss://b:1"] } }',
    'responses.redis: either all addresses must begin with rediss://, or none',
  ],
  [
    'unknown key, nothing near',
    '',
    'listen: { zzzzzz: 1 }',
    'listen.zzzzzz: unknown key; known here: host, port, explain_header, organization_body_bytes, ' +
      'worker_body_bytes, worker_sockets, trusted_proxies, proxy_protocol',
  ],
  ['unknown key of a model', 'aliases:', 'alias:', 'models[0].alias: unknown key (did you mean "aliases"?)'],
  [
    'odd key on one line',
    '',
    '"a b\\nc": 1',
    '["a b\\nc"]: unknown key; known here: listen, admin, workers, data_dir, ' +
      'drain_seconds, node_name, owned_by, ' +
      'ledger, ledger_unreachable, shortcuts, audit, log, tracing, alerts, metrics, tags, responses, ' +
      'continuity, compatibility, compaction, providers, prices, models, auto, queue, routing, organizations',
  ],
  ['word for number', '', 'drain_seconds: soon', 'drain_seconds: must be a whole number'],
  ['fraction for whole number', '', 'drain_seconds: 1.5', 'drain_seconds: must be a whole number'],
  ['number below', '', 'drain_seconds: -1', 'drain_seconds: must be at least 0'],
  ['number above', '', 'listen: { port: 65536 }', 'listen.port: must be at most 65535'],
  ['not a number', '', 'drain_seconds: .nan', 'drain_seconds: must be a whole number'],
  ['word for boolean', '', 'listen: { explain_header: yes }', 'listen.explain_header: must be true or false'],
  ['number for string', 'id: acme', 'id: 7', 'organizations[0].id: must be a string; put it in quotes'],
  ['list for string', 'id: acme', 'id: [a]', 'organizations[0].id: must be a string'],
  ['string for group', '', 'listen: here', 'listen: must be a group of keys (The address of the inference API)'],
  [
    'string for list',
    'aliases: [mini]',
    'aliases: mini',
    'models[0].aliases: must be a list (Other names that callers may use)',
  ],
  ['no value', '', 'listen:', 'listen: has no value; add one or remove the key'],
  [
    'no value in a list',
    'aliases: [mini]',
    'aliases: [~]',
    'models[0].aliases[0]: has no value; add one or remove the key',
  ],
  ['missing', GPT, '', 'models[0].targets: is missing (The models of providers that serve this model)'],
  ['empty list', GPT, 'targets: []', 'models[0].targets: must not be empty'],
  ['empty string', '', 'data_dir: ""', 'data_dir: must not be empty'],
  ['twice in a list', 'aliases: [mini]', 'aliases: [mini, mini]', 'models[0].aliases: has the same entry twice'],
  [
    'enum word',
    '',
    'ledger_unreachable: alow',
    'ledger_unreachable: "alow" is not one of refuse, allow (did you mean "allow"?)',
  ],
  [
    'enum word of a dialect',
    'dialect: anthropic',
    'dialect: antropic',
    `providers.anthropic.dialect: "antropic" is not one of ${PROVIDER_DIALECTS.join(', ')} (did you mean "anthropic"?)`,
  ],
  ['enum of another type', '', 'ledger_unreachable: 3', 'ledger_unreachable: must be one of refuse, allow'],
  [
    'name of a model',
    'name: painter',
    'name: "pain ter"',
    'models[2].name: must be 1 to 128 printable ASCII characters without spaces or commas',
  ],
  [
    'name of a model, not ASCII',
    'name: painter',
    'name: mäler',
    'models[2].name: must be 1 to 128 printable ASCII characters without spaces or commas',
  ],
  [
    'name of a provider',
    ANTHROPIC,
    `${ANTHROPIC}\n  "b c": { dialect: openai }`,
    'providers["b c"]: must be 1 to 64 letters, digits or ._@- and begin with a letter or digit',
  ],
  [
    '__proto__ as a provider',
    ANTHROPIC,
    `${ANTHROPIC}\n  __proto__: { dialect: openai }`,
    'providers.__proto__: must be 1 to 64 letters, digits or ._@- and begin with a letter or digit',
  ],
  ['price below 0', CLAUDE_PRICE, 'price: { input: -3, output: 15 }', 'models[1].price.input: must be at least 0'],
  [
    'spend below 0',
    'spend: { day: 50 }',
    'spend: { day: -1 }',
    'organizations[0].limits.spend.day: must be at least 0',
  ],
  [
    'spend of less than a micro-dollar',
    'spend: { day: 50 }',
    'spend: { day: 1e-9, month: 0.000001, total: 0.0000009 }',
    'organizations[0].limits.spend.day: is less than a micro-dollar; it must be 0 or at least 0.000001',
    'organizations[0].limits.spend.total: is less than a micro-dollar; it must be 0 or at least 0.000001',
  ],
  [
    'limit of 0',
    'spend: { day: 50 }',
    'requests_per_minute: 0',
    'organizations[0].limits.requests_per_minute: must be at least 1',
  ],
  ['workers of another kind', '', 'workers: many', 'workers: "many" is not one of a whole number, auto'],
  ['workers of 0', '', 'workers: 0', 'workers: must be at least 1'],
  ['ledger of another kind', '', 'ledger: redis', 'ledger: "redis" is not one of embedded, { redis, tls, timeout_ms }'],
  [
    'redis of another scheme',
    '',
    'ledger: { redis: "http://a" }',
    'ledger.redis: must be an address that begins with redis:// or rediss://',
  ],
  ...['redis://:a/b@c:1', 'redis://:a#b@c', 'redis://:%ZZ@c', 'redis://c:65536', 'redis:///1', 'redis://a/#1'].map(
    (address): [string, string, string, string] => [
      `redis at ${address}`,
      '',
      `ledger: { redis: "${address}" }`,
      'ledger.redis: is not a valid address: it must be redis://USER:PASSWORD@HOST:PORT/DATABASE, with a port up to ' +
        '65535 and with "/", "#", "?", "@" and "%" in the password as %2F, %23, %3F, %40 and %25',
    ],
  ),
  [
    'redis with a database that is no number',
    '',
    'responses: { redis: "redis://:p%2Fw@a/x" }',
    'responses.redis: must end with the number of a database, such as /0, or with nothing',
  ],
  [
    'a cluster with a database',
    '',
    'ledger: { redis: { cluster: ["redis://a:1/0", "redis://b:1/3"] } }',
    'ledger.redis.cluster[1]: must not name a database: a cluster has one alone',
  ],
  [
    'sentinels with a database',
    '',
    'ledger: { redis: { sentinels: ["redis://a:1/5"], name: m } }',
    'ledger.redis.sentinels[0]: must not name a database: with Sentinels, weir uses 0',
  ],
  [
    'a ledger that is an address',
    '',
    'ledger: "redis://:canary@a:1"',
    'ledger: must be one of embedded, { redis, tls, timeout_ms }',
  ],
  [
    'redis sentinels without name',
    '',
    'ledger: { redis: { sentinels: ["redis://a"] } }',
    'ledger.redis.name: is missing (The name of the master that the sentinels watch)',
  ],
  [
    'redis with TLS in part',
    '',
    'ledger: { redis: { cluster: ["rediss://a", "redis://b"] } }',
    'ledger.redis: either all addresses must begin with rediss://, or none',
  ],
  [
    'TLS for a redis without',
    '',
    `ledger: { redis: "redis://a", tls: { ca: ${pem('authority.crt')} } }`,
    'ledger.tls: is only for addresses that begin with rediss://',
  ],
  [
    'a CA that is not PEM',
    '',
    'ledger: { redis: "rediss://a", tls: { ca: /etc/ca.pem } }',
    'ledger.tls.ca: must be PEM (-----BEGIN …), best from a file',
  ],
  [
    'a CA that is no certificate',
    '',
    'ledger: { redis: "rediss://a", tls: { ca: "-----BEGIN CERTIFICATE-----\\nAAAA\\n-----END CERTIFICATE-----\\n" } }',
    'ledger.tls.ca: is not a valid certificate',
  ],
  [
    'a certificate without its key',
    '',
    `ledger: { redis: "rediss://a", tls: { certificate: ${pem('client.crt')} } }`,
    'ledger.tls.certificate: needs ledger.tls.key',
  ],
  [
    'a key of another certificate',
    '',
    `ledger: { redis: "rediss://a", tls: { certificate: ${pem('client.crt')}, key: ${pem('leaf.key')} } }`,
    'ledger.tls.key: is not the key of ledger.tls.certificate',
  ],
  // References to the environment and to files.
  [
    'missing variable',
    OPENAI,
    'openai: { dialect: openai, api_key: "${OPENAI_API_KY}" }',
    'providers.openai.api_key: "${OPENAI_API_KY}" is not set in the environment (did you mean "OPENAI_API_KEY"?)',
  ],
  [
    'inherited name is no variable',
    '',
    'data_dir: "${toString}"',
    'data_dir: "${toString}" is not set in the environment',
  ],
  [
    'missing file',
    OPENAI,
    'openai: { dialect: openai, api_key: "${file:nope}" }',
    'providers.openai.api_key: "${file:nope}" there is no such file',
  ],
  [
    'several references in one value, each once',
    OPENAI,
    'openai: { dialect: openai, api_key: "${ONE}-${file:nope}-${PORT}-${ONE}-${TWO" }',
    'providers.openai.api_key: "${ONE}" is not set in the environment; "${file:nope}" there is no such file; ' +
      '"${TWO" is not closed by a }',
  ],
  ['no reference', '', 'data_dir: "${A B}"', 'data_dir: "${A B}" is not a reference; write ${NAME} or ${file:PATH}'],
  ['open reference', '', 'data_dir: "${AB"', 'data_dir: "${AB" is not closed by a }'],
  [
    'a substituted word is not shown',
    GPT,
    'targets: [{ provider: "${OPENAI_API_KEY}", model: gpt-1 }]',
    'models[0].targets[0].provider: no provider is named "${OPENAI_API_KEY}"',
  ],
  [
    'a substituted enum is not shown',
    '',
    'ledger_unreachable: "${OPENAI_API_KEY}"',
    'ledger_unreachable: "${OPENAI_API_KEY}" is not one of refuse, allow',
  ],
  [
    'a bare reference that is no number',
    '',
    'drain_seconds: ${OPENAI_API_KEY}',
    'drain_seconds: must be a whole number',
  ],
  [
    'a quoted reference stays a string',
    '',
    'drain_seconds: "${PORT}"',
    'drain_seconds: must be a whole number; write the reference without quotes, on a line of its own',
  ],
  // YAML.
  [
    'duplicate provider',
    ANTHROPIC,
    `${ANTHROPIC}\n  anthropic: { dialect: anthropic }`,
    'providers.anthropic: duplicate key, also on line 4; keep one',
  ],
  ['complex key', '', '{ [a]: 1 }: 2\n', '(file): has a key that is not a plain word'],
  // The process.
  [
    'trusted proxies',
    '',
    'listen: { trusted_proxies: [10.0.0.1, 10.0.0.0/33, "::1", "fd00::/129", proxy.example, 10.0.0.0/8/8] }',
    ...[1, 3, 4, 5].map(
      (at) =>
        `listen.trusted_proxies[${at}]: must be an address or a network, such as 192.0.2.1, 10.0.0.0/8 or fd00::/8`,
    ),
  ],
  ['ports', '', 'listen: { port: 9090 }', 'admin.port: is also the port of the inference API (9090); choose another'],
  [
    'ports over all addresses',
    '',
    'listen: { port: 9090, host: 0.0.0.0 }',
    'admin.port: is also the port of the inference API (9090); choose another',
  ],
  [
    'compaction key',
    '',
    'compaction: { keys: [c2hvcnQ=] }',
    'compaction.keys[0]: must be 32 bytes in base64 (openssl rand -base64 32)',
  ],
  // Providers.
  [
    'azure',
    ANTHROPIC,
    `${ANTHROPIC}\n  az: { dialect: azure }`,
    'providers.az.base_url: is missing; dialect azure needs it',
    'providers.az.api_version: is missing; dialect azure needs it',
  ],
  [
    'bedrock',
    ANTHROPIC,
    `${ANTHROPIC}\n  aws: { dialect: bedrock, region: eu-west-1 }`,
    'providers.aws: has no credential; dialect bedrock needs api_key, or credentials, or access_key_id and ' +
      'secret_access_key',
  ],
  [
    'field of another dialect',
    ANTHROPIC,
    'anthropic: { dialect: anthropic, region: eu-west-1 }',
    'providers.anthropic.region: is only for dialect bedrock, and this is anthropic; remove it',
  ],
  [
    'address',
    ANTHROPIC,
    'anthropic: { dialect: anthropic, base_url: "ftp://a" }',
    'providers.anthropic.base_url: must be an address that begins with https:// or http://',
  ],
  [
    'address with a port beyond all',
    ANTHROPIC,
    'anthropic: { dialect: anthropic, base_url: "https://a:65536" }',
    'providers.anthropic.base_url: is not a valid address: its host or its port (up to 65535) cannot be read',
  ],
  [
    'address with a password',
    ANTHROPIC,
    'anthropic: { dialect: anthropic, base_url: "https://a:b@c" }',
    'providers.anthropic.base_url: must not contain a user name or password; use api_key or headers',
  ],
  [
    'address with a query',
    ANTHROPIC,
    'anthropic: { dialect: anthropic, base_url: "https://a/?b" }',
    'providers.anthropic.base_url: must not contain a query or fragment',
  ],
  [
    'header name',
    ANTHROPIC,
    'anthropic: { dialect: anthropic, headers: { "a b": c } }',
    'providers.anthropic.headers["a b"]: is not the name of a header',
  ],
  [
    'header value',
    ANTHROPIC,
    'anthropic: { dialect: anthropic, headers: { a: "b\\r\\nc: d" } }',
    'providers.anthropic.headers.a: must be printable ASCII',
  ],
  [
    'header of the connection',
    ANTHROPIC,
    'anthropic: { dialect: anthropic, headers: { Content-Length: "3" } }',
    'providers.anthropic.headers.Content-Length: cannot be set, because it belongs to the connection; remove it',
  ],
  [
    'header twice',
    ANTHROPIC,
    'anthropic: { dialect: anthropic, headers: { A: b, a: c } }',
    'providers.anthropic.headers.a: duplicate header (names are case-insensitive); keep one',
  ],
  // Models.
  [
    'unknown provider',
    GPT,
    'targets: [{ provider: opnai, model: gpt-1 }]',
    'models[0].targets[0].provider: no provider is named "opnai" (did you mean "openai"?)',
  ],
  [
    'unknown fallback',
    'fallbacks: [claude]',
    'fallbacks: [cluade]',
    'models[0].fallbacks[0]: no model is named "cluade" (did you mean "claude"?)',
  ],
  [
    'unknown candidate',
    'candidates: [gpt, claude]',
    'candidates: [gpt, claud]',
    'auto.candidates[1]: no model is named "claud" (did you mean "claude"?)',
  ],
  [
    'an alias as a candidate',
    'candidates: [gpt, claude]',
    'candidates: [mini]',
    'auto.candidates[0]: "mini" is an alias; write the public name, "gpt"',
  ],
  [
    'an image model as a candidate',
    'candidates: [gpt, claude]',
    'candidates: [gpt, painter]',
    'auto.candidates[1]: "painter" generates images; automatic selection is for chat models',
  ],
  ['duplicate name', 'name: painter', 'name: claude', 'models[2].name: "claude" is already the name of models[1]'],
  ['reserved name', 'name: painter', 'name: auto', 'models[2].name: "auto" is reserved for automatic selection'],
  [
    'reserved alias',
    'aliases: [mini]',
    'aliases: [auto]',
    'models[0].aliases[0]: "auto" is reserved for automatic selection',
  ],
  [
    'alias that is a name',
    'aliases: [mini]',
    'aliases: [claude]',
    'models[0].aliases[0]: "claude" is the name of models[1]; choose another alias',
  ],
  [
    'own fallback',
    'fallbacks: [claude]',
    'fallbacks: [gpt]',
    'models[0].fallbacks[0]: a model cannot be its own fallback',
  ],
  [
    'fallback of another kind',
    'fallbacks: [claude]',
    'fallbacks: [painter]',
    'models[0].fallbacks[0]: "painter" generates images and this model does not, so it cannot be a fallback',
  ],
  [
    'cycle of two',
    CLAUDE_PRICE,
    `${CLAUDE_PRICE}\n    fallbacks: [gpt]`,
    'models[1].fallbacks[0]: the fallbacks form a cycle: gpt -> claude -> gpt; remove one of them',
  ],
  [
    'mixed abilities',
    'supports: [image_generation]',
    'supports: [tools, image_generation]',
    'models[2].supports: image_generation cannot be combined with tools: a model is for chat or for images',
  ],
  [
    'default above the most',
    GPT,
    `${GPT}\n    max_output_tokens: 10\n    default_output_tokens: 11`,
    'models[0].default_output_tokens: is more than max_output_tokens (10)',
  ],
  [
    'ttls alone',
    GPT,
    `${GPT}\n    prompt_cache: { ttls: [5m] }`,
    'models[0].prompt_cache.ttls: needs prompt_cache.explicit: true',
  ],
  [
    'chat price without output',
    CLAUDE_PRICE,
    'price: { input: 3 }',
    'models[1].price.output: is missing; the price of a chat model needs it',
  ],
  [
    'image price of less than a micro-dollar',
    'price: { image: 0.04 }',
    'price: { image: 0.0000001 }',
    'models[2].price.image: is less than a micro-dollar; it must be 0 or at least 0.000001',
  ],
  [
    'chat price with images',
    CLAUDE_PRICE,
    'price: { input: 3, output: 15, image: 1 }',
    'models[1].price.image: is only for models that support image_generation; remove it',
  ],
  [
    'image price',
    'price: { image: 0.04 }',
    'price: { input: 1 }',
    'models[2].price: needs image, or input and output, because the model generates images',
  ],
  [
    'image price with half of the token prices',
    'price: { image: 0.04 }',
    'price: { image: 0.04, input: 1 }',
    'models[2].price: needs both input and output: a request is priced per image, or by all of its tokens',
  ],
  [
    'an image model at a provider without images',
    'targets: [{ provider: openai, model: image-1 }]',
    'targets: [{ provider: anthropic, model: image-1 }]',
    'models[2].targets[0].provider: "anthropic" has dialect anthropic, which generates no images; use openai or azure',
  ],
  // Organisations and keys.
  [
    'duplicate organisation',
    '      - { id: ci,',
    '      []\n  - id: acme\n    keys:\n      - { id: ci,',
    'organizations[1].id: "acme" is already the id at organizations[0].id; ids are unique in the whole file',
  ],
  [
    'duplicate key id in another organisation',
    CI,
    `${CI}\n  - id: other\n    keys:\n      - { id: ci, key: 0123456789abcdef1 }`,
    'organizations[1].keys[0].id: "ci" is already the id at organizations[0].keys[0].id; ' +
      'ids are unique in the whole file',
  ],
  [
    'duplicate key',
    HASH,
    '"${HASH}"',
    'organizations[0].keys[1].sha256: is the same as that of organizations[0].keys[0]; every key needs its own',
  ],
  [
    'key and hash',
    CI,
    `{ id: ci, key: 0123456789abcdef0, sha256: "${'0'.repeat(64)}" }`,
    'organizations[0].keys[0]: has both key and sha256; keep one',
  ],
  ['neither key nor hash', CI, '{ id: ci }', 'organizations[0].keys[0]: needs sha256 or key'],
  [
    'short key',
    CI,
    '{ id: ci, key: canary }',
    'organizations[0].keys[0].key: must be 16 to 512 printable ASCII characters without spaces or commas',
  ],
  [
    'key with a comma',
    CI,
    '{ id: ci, key: "0123456789,abcdef" }',
    'organizations[0].keys[0].key: must be 16 to 512 printable ASCII characters without spaces or commas',
  ],
  ['hash', HASH, 'abc', 'organizations[0].keys[1].sha256: must be 64 hexadecimal digits'],
  [
    'tag of a key without tags',
    CI,
    '{ id: ci, key: 0123456789abcdef0, tags: { team: a } }',
    'organizations[0].keys[0].tags.team: is not in tags of the configuration; add it there',
  ],
  [
    'value of a tag',
    CI,
    '{ id: ci, key: 0123456789abcdef0, tags: { team: "a b" } }',
    'organizations[0].keys[0].tags.team: must be 1 to 64 letters, digits or ._/@:-',
  ],
  [
    'two tags of one name',
    '',
    'tags: [project, { name: project }]',
    'tags[1]: has the name of tags[0]; names are unique',
  ],
  [
    'source of a tag',
    '',
    'tags: [{ name: person, from: [body] }]',
    'tags[0].from[0]: must be user, or header: and the name of a header',
  ],
  [
    'a credential as the source of a tag',
    '',
    'tags: [{ name: person, from: ["header:Authorization"] }]',
    'tags[0].from[0]: is a header for credentials, which must not be in logs and reports',
  ],
  [
    'fixed tag that is no tag',
    '{ id: ci, key: 0123456789abcdef0 }',
    '{ id: ci, key: 0123456789abcdef0, fixed_tags: { team: a } }',
    'organizations[0].keys[0].fixed_tags.team: is not in tags of the configuration; add it there',
  ],
  ['name of a tag', '', 'tags: [project, "a=b"]', 'tags[1]: must be 1 to 64 letters, digits or ._-'],
  [
    'expiry',
    CI,
    '{ id: ci, key: 0123456789abcdef0, expires_at: soon }',
    'organizations[0].keys[0].expires_at: must be a date (2027-01-31) or an RFC 3339 time (2027-01-31T12:00:00Z)',
  ],
  [
    'expiry on no day',
    CI,
    '{ id: ci, key: 0123456789abcdef0, expires_at: 2027-02-30 }',
    'organizations[0].keys[0].expires_at: must be a date (2027-01-31) or an RFC 3339 time (2027-01-31T12:00:00Z)',
  ],
  [
    'rule without effect',
    'auto: available',
    'auto: available\n    rules: [{ keys: [ci] }]',
    'organizations[0].rules[0]: needs allow or deny',
  ],
  [
    'rule with both effects',
    'auto: available',
    'auto: available\n    rules: [{ allow: [a], deny: [b] }]',
    'organizations[0].rules[0]: has both allow and deny; split it into two rules',
  ],
  [
    'spend without an amount',
    'spend: { day: 50 }',
    'spend: { strict: true }',
    'organizations[0].limits.spend: needs at least one of day, month, total',
  ],
  ['spend that is empty', 'spend: { day: 50 }', 'spend: {}', 'organizations[0].limits.spend: must not be empty'],
  [
    'auto without candidates',
    'auto: { candidates: [gpt, claude] }',
    '',
    'organizations[0].auto: is available, but there are no candidates; set auto: { candidates: […] }',
  ],
  [
    'no candidates',
    'auto: { candidates: [gpt, claude] }',
    'auto: { candidates: [] }',
    'auto.candidates: must not be empty',
  ],
  [
    'no price under an organisation limit',
    CLAUDE_PRICE,
    '',
    'models[1].price: is missing, and organisation "acme" may use it under a spend limit; ' +
      'give it a price, or exclude it there',
  ],
]

describe('each mistake is one line', () => {
  test.each([...table])('%s', (_, from, to, ...lines) => {
    const text = from === '' ? `${to}\n${BASE}` : edited(from, to)
    const hash = new Bun.CryptoHasher('sha256').update('0123456789abcdef0').digest('hex')
    const env = { OPENAI_API_KEY: 'sk-canary-openai', PORT: '8181', HASH: hash }
    expect(problems(text, { env })).toEqual(lines)
  })
})

test('a key cannot loosen the mandatory setting of its organisation', () => {
  const text = edited(
    CI,
    '{ id: ci, key: 0123456789abcdef0, auto: available }',
    edited('auto: available', 'auto: mandatory'),
  )
  expect(problems(text)).toEqual([
    "organizations[0].keys[0].auto: cannot be available because the organisation's is mandatory; remove it",
  ])
})

test('a key cannot have more than its organisation', () => {
  for (const wish of ['available', 'mandatory']) {
    const text = edited(CI, `{ id: ci, key: 0123456789abcdef0, auto: ${wish} }`, edited('auto: available', ''))
    expect(problems(text)).toEqual([
      `organizations[0].keys[0].auto: cannot be ${wish} because the organisation's is off; set that to available`,
    ])
  }
})

test('an unquoted reference in the place of a string stays a string, also if that is invalid', () => {
  expect(problems(edited('id: acme', 'id: ${PORT}'))).toEqual([])
  expect(problems(`owned_by: \${EMPTY}\n${BASE}`, { env: { OPENAI_API_KEY: 'x', EMPTY: '' } })).toEqual([
    'owned_by: must not be empty',
  ])
  expect(problems(edited('id: acme', 'id: ${NEGATIVE}'), { env: { OPENAI_API_KEY: 'x', NEGATIVE: '-1' } })).toEqual([
    'organizations[0].id: must be 1 to 64 letters, digits or ._@- and begin with a letter or digit',
  ])
})

test('an alias without an anchor is reported with its path', () => {
  expect(problems(edited('id: acme', 'id: *canary'))).toEqual([
    'organizations[0].id: refers to an anchor (*) that is not defined before it; quote a string that begins with *',
  ])
})

test('a spend limit of a key needs prices, too, except of models that the key may not use', () => {
  const unpriced = edited(CLAUDE_PRICE, '', edited('limits: { spend: { day: 50 } }', ''))
  expect(problems(unpriced)).toEqual([])
  const limited = edited(CI, '{ id: ci, key: 0123456789abcdef0, limits: { spend: { day: 5 } } }', unpriced)
  expect(problems(limited)).toEqual([
    'models[1].price: is missing, and key "ci" may use it under a spend limit; give it a price, or exclude it there',
  ])
  const denied = edited('auto: available', 'auto: available\n    rules: [{ deny: ["cl*"], keys: [ci] }]', limited)
  expect(problems(denied)).toEqual([])
  expect(problems(edited('id: ci,', 'id: ci, models: [g*],', limited))).toEqual([])
  expect(problems(edited('keys: [ci]', 'keys: [c]', denied))).toHaveLength(1)
})

test('a strict spend limit needs the maximum output of a model', () => {
  const end =
    'may use it under a strict spend limit, which holds the whole output limit; set it, or exclude the model there'
  const strict = edited('spend: { day: 50 }', 'spend: { day: 50, strict: true }')
  const who = 'organisation "acme"'
  const missing = [0, 1].map((i) => `models[${i}].max_output_tokens: is missing, and ${who} ${end}`)
  expect(problems(strict)).toEqual(missing)
  // A model with free output needs no maximum.
  const free = edited(CLAUDE_PRICE, 'price: { input: 3, output: 0 }', strict)
  expect(problems(free)).toEqual(missing.slice(0, 1))
  const limited = edited(CLAUDE_PRICE, `max_output_tokens: 8000\n    ${CLAUDE_PRICE}`, strict)
  expect(problems(limited)).toEqual(missing.slice(0, 1))
  const ofKey = edited(
    CI,
    '{ id: ci, key: 0123456789abcdef0, models: [cl*], limits: { spend: { day: 5, strict: true } } }',
  )
  expect(problems(ofKey)).toEqual([`models[1].max_output_tokens: is missing, and key "ci" ${end}`])
})

test('all problems are reported at once, and none hides another', () => {
  const text = [
    ['api_key: x }', 'api_key: x, base_url: 3 }'],
    ['provider: openai, model: gpt-1', 'provider: opnai, model: gpt-1'],
    ['fallbacks: [claude]', 'fallbacks: [clade]'],
    ['id: app', 'id: 3'],
    ['auto: available', 'auto: availble'],
    ['${OPENAI_API_KEY}', '${NONE}'],
  ].reduce((all, [from, to]) => edited(from ?? '', to ?? '', all), BASE)
  expect([...problems(text)].sort()).toEqual([
    'models[0].fallbacks[0]: no model is named "clade" (did you mean "claude"?)',
    'models[0].targets[0].provider: no provider is named "opnai" (did you mean "openai"?)',
    'organizations[0].auto: "availble" is not one of off, available, mandatory (did you mean "available"?)',
    'organizations[0].keys[1].id: must be a string; put it in quotes',
    'providers.anthropic.base_url: must be a string; put it in quotes',
    'providers.openai.api_key: "${NONE}" is not set in the environment',
  ])
})

test('a cycle of three is reported once, as a whole', () => {
  const text = edited(
    CLAUDE_PRICE,
    `${CLAUDE_PRICE}
    fallbacks: [third]
  - name: third
    targets: [{ provider: openai, model: y }]
    price: { input: 1, output: 1 }
    fallbacks: [gpt]`,
  )
  expect(problems(text)).toEqual([
    'models[2].fallbacks[0]: the fallbacks form a cycle: gpt -> claude -> third -> gpt; remove one of them',
  ])
})

describe('invalid YAML', () => {
  const cases: readonly [string, string][] = [
    ['listen: [\n', 'column 1: a list that begins with [ is not closed'],
    ['a: b: c\n', 'column 4: there are two keys on one line'],
    ['a: "canary', 'column 11: a quoted string, perhaps of an earlier line, is not closed'],
    ['a: { b: ${C} }\n', 'column 10: '],
    ['a: 1\n---\nb: 2\n', 'column 1: '],
    ['a: !!weird canary\n', 'column 4: '],
    ['a: !canary b\n', 'column 4: the tag (!…) is not known here'],
    ['a: !canary! b\n', 'column 4: the tag (!…) is not known here'],
    ['a: |canary\n b\n', 'column 5: Block scalar header includes extra characters'],
  ]
  test.each([...cases])('%j', (text, line) => {
    const found = problems(text)
    expect(found).toHaveLength(1)
    expect(found[0]).toStartWith(line)
    expect(found[0]).not.toContain('canary')
    expect(found[0]).not.toContain('\n')
  })

  test('a reference without quotes inside braces gets a hint', () => {
    expect(problems('listen: { port: ${PORT} }\n')[0]).toEndWith('(within { } and [ ] put a ${…} in quotes)')
  })

  test('an empty file, a word, a list', () => {
    for (const text of ['', '# only this', 'word', '- a']) {
      expect(problems(text)[0]).toStartWith('(file): ')
      expect(problems(text)).toHaveLength(1)
    }
  })

  test('anchors work, and anchors that repeat themselves are rejected', () => {
    expect(problems(edited('price: { input: 3, output: 15 }', 'price: &p { input: 3, output: 15 }'))).toEqual([])
    const levels = Array.from(
      { length: 12 },
      (_, i) => `l${i}: &l${i} [${Array(9).fill(i === 0 ? 'x' : `*l${i - 1}`)}]`,
    )
    expect(problems(levels.join('\n'))[0]).toStartWith('(file): has more values')
    expect(problems('a: &a [*a, *a]')[0]).toStartWith('(file): has more values')
  })
})

describe('words', () => {
  test.each([
    ['opnai', ['anthropic', 'openai'], 'openai'],
    ['OpenAI', ['openai'], 'openai'],
    ['naem', ['name', 'models'], 'name'],
    ['x', ['m'], undefined],
    ['completely', ['different'], undefined],
    ['y'.repeat(200), ['y'.repeat(199)], undefined],
  ] as const)('%s of %j', (word, known, expected) => {
    expect(nearest(word, known)).toBe(expected)
    expect(didYouMean(word, known)).toBe(expected === undefined ? '' : ` (did you mean "${expected}"?)`)
  })

  test('paths', () => {
    expect(pathText([])).toBe('(file)')
    expect(pathText(['a', 2, 'b', 'c d', 0])).toBe('a[2].b["c d"][0]')
    expect(pathText([`x${'y'.repeat(100)}\n`])).not.toContain('\n')
  })
})
