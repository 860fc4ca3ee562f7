/**
 * Configurations with one mistake each, as people make them: the line of the output names the line of the file, the
 * path, what was found there and what to do.
 */

// biome-ignore-all lint/suspicious/noTemplateCurlyInString: references of the configuration file are written so

import { afterAll, expect, test } from 'bun:test'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig } from '../../src/config/load.ts'

const FILE = `listen: { host: 127.0.0.1, port: 8080 }
admin: { port: 9090 }
workers: 1
drain_seconds: 600
ledger: embedded
audit: { keep_days: 90 }
providers:
  openai:
    dialect: openai
    api_key: "\${OPENAI_API_KEY}"
  anthropic:
    dialect: anthropic
    api_key: sk-ant-canary-plain
  local:
    dialect: openai
    base_url: http://127.0.0.1:8000/v1
models:
  - name: gpt-5-mini
    targets:
      - { provider: openai, model: gpt-5-mini-2025-08-07 }
      - { provider: local, model: qwen }
    fallbacks: [claude-sonnet]
    price: { input: 0.25, cached_input: 0.025, output: 2.00 }
    context_window: 400000
    max_output_tokens: 128000
  - name: claude-sonnet
    targets: [{ provider: anthropic, model: claude-sonnet-4-5 }]
    price: { input: 3, output: 15 }
auto: { candidates: [gpt-5-mini] }
organizations:
  - id: acme
    models: ["gpt-*", "claude-*"]
    auto: available
    limits:
      requests_per_minute: 600
      spend: { day: 50 }
    keys:
      - id: ci
        key: canary-key-0123456789
        expires_at: 2099-01-01
      - id: bot
        sha256: ff361e9c224c8a0c4720d375ba4c3f8c2034858b80bb374f8d25203452f2f38c
`

const ENV = { OPENAI_API_KEY: 'sk-canary-of-the-environment', PORT: 'eighty', SECONDS: '60' }

interface Row {
  readonly what: string
  /** A piece of the file; absent: the whole file. */
  readonly replace?: string
  readonly by: string
  /** After `weir.yaml:`. */
  readonly lines: readonly string[]
}

/** Files that are rejected. */
const WRONG: readonly Row[] = [
  {
    what: 'a port that is a word',
    replace: 'port: 8080',
    by: 'port: http',
    lines: ['1: listen.port: must be a whole number (found "http")'],
  },
  {
    what: 'a port from the environment that is a word',
    replace: 'port: 8080',
    by: 'port: "${PORT}"',
    lines: ['1: listen.port: must be a whole number (found "${PORT}")'],
  },
  {
    what: 'a port out of range',
    replace: 'port: 8080',
    by: 'port: 80800',
    lines: ['1: listen.port: must be at most 65535 (found 80800)'],
  },
  {
    what: 'a port below zero',
    replace: 'admin: { port: 9090 }',
    by: 'admin: { port: -1 }',
    lines: ['2: admin.port: must be at least 0 (found -1)'],
  },
  {
    what: 'the same port twice',
    replace: 'admin: { port: 9090 }',
    by: 'admin: { port: 8080 }',
    lines: ['2: admin.port: is also the port of the inference API (8080); choose another'],
  },
  {
    what: 'an admin port for others without a token',
    replace: 'admin: { port: 9090 }',
    by: 'admin: { port: 9090, host: 0.0.0.0 }',
    lines: [
      '2: admin.host: is not a loopback address, so that the admin port needs a token: set admin.token (openssl rand ' +
        '-hex 32), or admin.host to 127.0.0.1 (found "0.0.0.0")',
    ],
  },
  {
    what: 'a host with a port',
    replace: 'host: 127.0.0.1',
    by: 'host: "0.0.0.0:8080"',
    lines: ['1: listen.host: must not contain a port; set listen.port (found "0.0.0.0:8080")'],
  },
  {
    what: 'an address that cannot be one',
    replace: 'host: 127.0.0.1',
    by: 'host: 127.0.0.256',
    lines: ['1: listen.host: must be an address or a host name (found "127.0.0.256")'],
  },
  {
    what: 'half an IPv6 address in brackets',
    replace: 'port: 9090',
    by: 'port: 9090, host: "[::1"',
    lines: ['2: admin.host: must be an address or a host name (found "[::1")'],
  },
  {
    what: 'a home directory for the data',
    replace: 'workers: 1',
    by: 'data_dir: ~/weir',
    lines: ['3: data_dir: ~ is not replaced by a home directory; write the whole path (found "~/weir")'],
  },
  {
    what: 'a file in a home directory',
    replace: '${OPENAI_API_KEY}',
    by: '${file:~/openai.key}',
    lines: [
      '10: providers.openai.api_key: "${file:~/openai.key}" there is no such file (~ is not replaced by a home ' +
        'directory)',
    ],
  },
  {
    what: 'a number from the environment in quotes',
    replace: 'drain_seconds: 600',
    by: 'drain_seconds: "${SECONDS}"',
    lines: [
      '4: drain_seconds: must be a whole number; write the reference without quotes, on a line of its own (found ' +
        '"${SECONDS}")',
    ],
  },
  {
    what: 'a hash that is a number',
    replace: 'ff361e9c224c8a0c4720d375ba4c3f8c2034858b80bb374f8d25203452f2f38c',
    by: '1111111111111111111111111111111111111111111111111111111111111111',
    lines: ['42: organizations[0].keys[1].sha256: must be a string; put it in quotes (found a number, not shown)'],
  },
  {
    what: 'a merge key',
    replace: '      spend: { day: 50 }',
    by: '      <<: { requests_per_minute: 5 }',
    lines: ['36: organizations[0].limits["<<"]: merge keys are not supported; write the keys of the group out'],
  },
  {
    what: 'a short admin token',
    replace: 'admin: { port: 9090 }',
    by: 'admin: { port: 9090, token: short }',
    lines: [
      '2: admin.token: must be 16 to 256 printable ASCII characters without spaces (openssl rand -hex 32) (found ' +
        '5 characters, not shown)',
    ],
  },
  {
    what: 'a host with a path',
    replace: 'host: 127.0.0.1',
    by: 'host: "http://127.0.0.1/"',
    lines: ['1: listen.host: must be an address or a host name (found "http://127.0.0.1/")'],
  },
  {
    what: 'an unknown key',
    replace: 'workers: 1',
    by: 'wrokers: 1',
    lines: ['3: wrokers: unknown key (did you mean "workers"?)'],
  },
  {
    what: 'an unknown key with a secret',
    replace: 'workers: 1',
    by: 'master_key: sk-canary-pasted',
    lines: [
      '3: master_key: unknown key; known here: listen, admin, workers, data_dir, drain_seconds, node_name, owned_by, ' +
        'ledger, ledger_unreachable, shortcuts, audit, log, tracing, alerts, metrics, tags, responses, ' +
        'continuity, compatibility, compaction, providers, prices, models, auto, queue, routing, organizations',
    ],
  },
  {
    what: 'an unknown key inside',
    replace: '    context_window: 400000',
    by: '    context_size: 400000',
    lines: [
      '24: models[0].context_size: unknown key; known here: name, aliases, targets, spread, fallbacks, ' +
        'price, context_window, max_output_tokens, default_output_tokens, supports, prompt_cache',
    ],
  },
  {
    what: 'weights of which none chooses a target',
    replace: '    targets: [{ provider: anthropic, model: claude-sonnet-4-5 }]',
    by: '    targets: [{ provider: anthropic, model: claude-sonnet-4-5, weight: 0 }]\n    spread: weighted',
    lines: ['27: models[1].targets: every weight is 0, so no target would be chosen; give one a weight above 0'],
  },
  {
    what: 'embeddings of a provider that makes none',
    replace: '    targets: [{ provider: anthropic, model: claude-sonnet-4-5 }]',
    by: '    targets: [{ provider: anthropic, model: claude-sonnet-4-5 }]\n    supports: [embeddings, tools]',
    lines: [
      '22: models[0].fallbacks[0]: "claude-sonnet" makes embeddings, so it cannot be a fallback',
      '27: models[1].targets[0].provider: "anthropic" has dialect anthropic, which makes no embeddings; ' +
        'use openai or azure',
      '28: models[1].supports: embeddings cannot be combined with anything else',
    ],
  },
  {
    what: 'fallbacks of a model that makes embeddings',
    replace: '    context_window: 400000',
    by: '    supports: [embeddings]\n    context_window: 400000',
    lines: [
      '22: models[0].fallbacks: embeddings of different models cannot be compared; list the same model of another ' +
        'provider under targets',
      '30: auto.candidates[0]: "gpt-5-mini" makes embeddings; automatic selection is for chat models',
    ],
  },
  {
    what: 'workers in words',
    replace: 'workers: 1',
    by: 'workers: two',
    lines: ['3: workers: "two" is not one of a whole number, auto'],
  },
  {
    what: 'no workers',
    replace: 'workers: 1',
    by: 'workers: 0',
    lines: ['3: workers: must be at least 1 (found 0)'],
  },
  {
    what: 'half a worker',
    replace: 'workers: 1',
    by: 'workers: 1.5',
    lines: ['3: workers: must be a whole number (found 1.5)'],
  },
  {
    what: 'a duration with a unit',
    replace: 'drain_seconds: 600',
    by: 'drain_seconds: 10m',
    lines: ['4: drain_seconds: must be a whole number (found "10m")'],
  },
  {
    what: 'a negative duration',
    replace: 'drain_seconds: 600',
    by: 'drain_seconds: -5',
    lines: ['4: drain_seconds: must be at least 0 (found -5)'],
  },
  {
    what: 'a ledger that does not exist',
    replace: 'ledger: embedded',
    by: 'ledger: postgres',
    lines: ['5: ledger: "postgres" is not one of embedded, { redis, tls, timeout_ms }'],
  },
  {
    what: 'Redis without its group',
    replace: 'ledger: embedded',
    by: 'ledger: redis://localhost:6379',
    lines: ['5: ledger: "redis://localhost:6379" is not one of embedded, { redis, tls, timeout_ms }'],
  },
  {
    what: 'Redis without a scheme',
    replace: 'ledger: embedded',
    by: 'ledger: { redis: "localhost:6379" }',
    lines: [
      '5: ledger.redis: must be an address that begins with redis:// or rediss:// (found 14 characters, ' +
        'not shown)',
    ],
  },
  {
    what: 'Redis with a password and a wrong scheme',
    replace: 'ledger: embedded',
    by: 'ledger: { redis: "http://:canary@localhost:6379" }',
    lines: [
      '5: ledger.redis: must be an address that begins with redis:// or rediss:// (found 29 characters, ' +
        'not shown)',
    ],
  },
  {
    what: 'no days',
    replace: 'audit: { keep_days: 90 }',
    by: 'audit: { keep_days: 0 }',
    lines: ['6: audit.keep_days: must be at least 1 (found 0)'],
  },
  {
    what: 'a group that is a number',
    replace: 'audit: { keep_days: 90 }',
    by: 'audit: 90',
    lines: ['6: audit: must be a group of keys (The audit trail, which `weir audit` reads) (found 90)'],
  },
  {
    what: 'a dialect that does not exist',
    replace: '    dialect: anthropic',
    by: '    dialect: claude',
    lines: [
      '12: providers.anthropic.dialect: "claude" is not one of openai, anthropic, gemini, azure, bedrock, vertex',
    ],
  },
  {
    what: 'a dialect with a typo',
    replace: '    dialect: anthropic',
    by: '    dialect: antropic',
    lines: [
      '12: providers.anthropic.dialect: "antropic" is not one of openai, anthropic, gemini, azure, bedrock, vertex ' +
        '(did you mean "anthropic"?)',
    ],
  },
  {
    what: 'no dialect',
    replace: '    dialect: anthropic\n',
    by: '',
    lines: ['11: providers.anthropic.dialect: is missing (The API that the provider speaks)'],
  },
  {
    what: 'a provider that is only its key',
    replace: '  local:\n    dialect: openai\n    base_url: http://127.0.0.1:8000/v1',
    by: '  local: sk-canary-pasted',
    lines: [
      '14: providers.local: must be a group of keys (A provider: its API, address, credential and ' +
        'timeouts) (found a string)',
    ],
  },
  {
    what: 'an address without a scheme',
    replace: 'http://127.0.0.1:8000/v1',
    by: '127.0.0.1:8000/v1',
    lines: [
      '16: providers.local.base_url: must be an address that begins with https:// or http:// (found ' +
        '"127.0.0.1:8000/v1")',
    ],
  },
  {
    what: 'an address with a query, which may be a key',
    replace: 'http://127.0.0.1:8000/v1',
    by: 'http://127.0.0.1:8000/v1?key=canary',
    lines: ['16: providers.local.base_url: must not contain a query or fragment (found 35 characters, not shown)'],
  },
  {
    what: 'an address with a password',
    replace: 'http://127.0.0.1:8000/v1',
    by: 'http://me:canary@127.0.0.1:8000/v1',
    lines: [
      '16: providers.local.base_url: must not contain a user name or password; use api_key or headers ' +
        '(found 34 characters, not shown)',
    ],
  },
  {
    what: 'a variable that is not set',
    replace: '${OPENAI_API_KEY}',
    by: '${OPENAI_KEY}',
    lines: ['10: providers.openai.api_key: "${OPENAI_KEY}" is not set in the environment'],
  },
  {
    what: 'a variable without braces',
    replace: '"${OPENAI_API_KEY}"',
    by: '$OPENAI_API_KEY',
    lines: [
      '10: providers.openai.api_key: $OPENAI_API_KEY without braces is not replaced; write ' +
        '${OPENAI_API_KEY} (if the value really contains it, put the value in the environment or a file)',
    ],
  },
  {
    what: 'a file that does not exist',
    replace: '${OPENAI_API_KEY}',
    by: '${file:openai.key}',
    lines: ['10: providers.openai.api_key: "${file:openai.key}" there is no such file'],
  },
  {
    what: 'a brace that is not closed',
    replace: '"${OPENAI_API_KEY}"',
    by: '"${OPENAI_API_KEY"',
    lines: ['10: providers.openai.api_key: "${OPENAI_API_KEY" is not closed by a }'],
  },
  {
    what: 'a key with a line break',
    replace: 'sk-ant-canary-plain',
    by: '"sk-ant-canary\\nplain"',
    lines: [
      '13: providers.anthropic.api_key: must be printable ASCII characters without spaces or line breaks ' +
        '(found 19 characters, not shown)',
    ],
  },
  {
    what: 'a region for the wrong dialect',
    replace: 'api_key: sk-ant-canary-plain',
    by: 'api_key: sk-ant-canary-plain\n    region: eu-west-1',
    lines: [
      '14: providers.anthropic.region: is only for dialect bedrock, and this is anthropic; remove it ' +
        '(found "eu-west-1")',
    ],
  },
  {
    what: 'a timeout in words',
    replace: 'api_key: sk-ant-canary-plain',
    by: 'api_key: sk-ant-canary-plain\n    connect_timeout_ms: 3s',
    lines: ['14: providers.anthropic.connect_timeout_ms: must be a whole number (found "3s")'],
  },
  {
    what: 'a header of the connection',
    replace: 'api_key: sk-ant-canary-plain',
    by: 'headers: { Host: example.org }',
    lines: [
      '13: providers.anthropic.headers.Host: cannot be set, because it belongs to the connection; remove it',
      '11: warning: providers.anthropic.api_key: is missing, and api.anthropic.com is a hosted provider, ' +
        'which rejects requests without one; set api_key: "${NAME}"',
    ],
  },
  {
    what: 'Azure without its version',
    replace: '    dialect: anthropic',
    by: '    dialect: azure\n    base_url: https://x.openai.azure.com',
    lines: ['11: providers.anthropic.api_version: is missing; dialect azure needs it'],
  },
  {
    what: 'Bedrock without credentials',
    replace: '    dialect: anthropic\n    api_key: sk-ant-canary-plain',
    by: '    dialect: bedrock\n    region: eu-west-1',
    lines: [
      '11: providers.anthropic: has no credential; dialect bedrock needs api_key, or credentials, or access_key_id ' +
        'and secret_access_key',
    ],
  },
  {
    what: 'a provider with a typo',
    replace: 'provider: openai, model',
    by: 'provider: opnai, model',
    lines: ['20: models[0].targets[0].provider: no provider is named "opnai" (did you mean "openai"?)'],
  },
  {
    what: 'a target that is a word',
    replace: '- { provider: local, model: qwen }',
    by: '- openai/gpt-5',
    lines: ['21: models[0].targets[1]: must be a group of keys (One model of one provider) (found a string)'],
  },
  {
    what: 'no targets',
    replace: '    targets: [{ provider: anthropic, model: claude-sonnet-4-5 }]',
    by: '    targets: []',
    lines: ['27: models[1].targets: must not be empty (found [])'],
  },
  {
    what: 'a model twice',
    replace: 'name: claude-sonnet',
    by: 'name: gpt-5-mini',
    lines: [
      '22: models[0].fallbacks[0]: no model is named "claude-sonnet"',
      '26: models[1].name: "gpt-5-mini" is already the name of models[0]',
      '32: warning: organizations[0].models[1]: "claude-*" matches no model; correct it, or remove it',
    ],
  },
  {
    what: 'a reserved name',
    replace: 'name: claude-sonnet',
    by: 'name: auto',
    lines: [
      '22: models[0].fallbacks[0]: no model is named "claude-sonnet"',
      '26: models[1].name: "auto" is reserved for automatic selection',
      '32: warning: organizations[0].models[1]: "claude-*" matches no model; correct it, or remove it',
    ],
  },
  {
    what: 'a name with a space',
    replace: 'name: claude-sonnet',
    by: 'name: claude sonnet',
    lines: [
      '22: models[0].fallbacks[0]: no model is named "claude-sonnet" (did you mean "claude sonnet"?)',
      '26: models[1].name: must be 1 to 128 printable ASCII characters without spaces or commas (found ' +
        '"claude sonnet")',
      '32: warning: organizations[0].models[1]: "claude-*" matches no model; correct it, or remove it',
    ],
  },
  {
    what: 'a fallback with a typo',
    replace: '[claude-sonnet]',
    by: '[claude-sonet]',
    lines: ['22: models[0].fallbacks[0]: no model is named "claude-sonet" (did you mean "claude-sonnet"?)'],
  },
  {
    what: 'a fallback to itself',
    replace: '[claude-sonnet]',
    by: '[gpt-5-mini]',
    lines: ['22: models[0].fallbacks[0]: a model cannot be its own fallback (found "gpt-5-mini")'],
  },
  {
    what: 'a price in words',
    replace: 'input: 0.25',
    by: 'input: $0.25',
    lines: ['23: models[0].price.input: must be a number (found "$0.25")'],
  },
  {
    what: 'a price with a comma',
    replace: 'input: 0.25',
    by: 'input: "0,25"',
    lines: ['23: models[0].price.input: must be a number (found "0,25")'],
  },
  {
    what: 'a negative price',
    replace: 'input: 0.25',
    by: 'input: -1',
    lines: ['23: models[0].price.input: must be at least 0 (found -1)'],
  },
  {
    what: 'half a price',
    replace: 'price: { input: 3, output: 15 }',
    by: 'price: { input: 3 }',
    lines: ['28: models[1].price.output: is missing; the price of a chat model needs it'],
  },
  {
    what: 'no price under a budget',
    replace: '    price: { input: 3, output: 15 }\n',
    by: '',
    lines: [
      '26: models[1].price: is missing, and organisation "acme" may use it under a spend limit; give it a ' +
        'price, or exclude it there',
    ],
  },
  {
    what: 'a wrong ability',
    replace: '    max_output_tokens: 128000',
    by: '    supports: [vision]',
    lines: [
      '25: models[0].supports[0]: "vision" is not one of tools, images, documents, ' +
        'structured_output, image_generation, embeddings',
    ],
  },
  {
    what: 'a window in words',
    replace: 'context_window: 400000',
    by: 'context_window: 400k',
    lines: ['24: models[0].context_window: must be a whole number (found "400k")'],
  },
  {
    what: 'a candidate that does not exist',
    replace: 'candidates: [gpt-5-mini]',
    by: 'candidates: [gpt-5-mni]',
    lines: ['29: auto.candidates[0]: no model is named "gpt-5-mni" (did you mean "gpt-5-mini"?)'],
  },
  {
    what: 'organisations as a map',
    replace: '  - id: acme\n    models: ["gpt-*", "claude-*"]',
    by: '  acme:\n    models: ["gpt-*", "claude-*"]',
    lines: [
      '30: organizations: must be a list (The organisations that may call, with their keys) (found a group ' +
        'of keys)',
    ],
  },
  {
    what: 'an id with a space',
    replace: 'id: acme',
    by: 'id: ACME Inc',
    lines: [
      '31: organizations[0].id: must be 1 to 64 letters, digits or ._@- and begin with a letter or digit ' +
        '(found "ACME Inc")',
    ],
  },
  {
    what: 'a wrong choice',
    replace: 'auto: available',
    by: 'auto: yes',
    lines: ['33: organizations[0].auto: "yes" is not one of off, available, mandatory'],
  },
  {
    what: 'a limit of nothing',
    replace: 'requests_per_minute: 600',
    by: 'requests_per_minute: 0',
    lines: ['35: organizations[0].limits.requests_per_minute: must be at least 1 (found 0)'],
  },
  {
    what: 'a limit in words',
    replace: 'requests_per_minute: 600',
    by: 'requests_per_minute: unlimited',
    lines: ['35: organizations[0].limits.requests_per_minute: must be a whole number (found "unlimited")'],
  },
  {
    what: 'a limit with a typo',
    replace: 'requests_per_minute',
    by: 'request_per_minute',
    lines: ['35: organizations[0].limits.request_per_minute: unknown key (did you mean "requests_per_minute"?)'],
  },
  {
    what: 'an empty budget',
    replace: 'spend: { day: 50 }',
    by: 'spend: {}',
    lines: ['36: organizations[0].limits.spend: must not be empty (found {})'],
  },
  {
    what: 'a budget of a week',
    replace: 'spend: { day: 50 }',
    by: 'spend: { week: 50 }',
    lines: [
      '36: organizations[0].limits.spend.week: unknown key; known here: day, month, total, strict, ' + 'on_exhausted',
      '36: organizations[0].limits.spend: needs at least one of day, month, total',
    ],
  },
  {
    what: 'a key id twice',
    replace: 'id: bot',
    by: 'id: ci',
    lines: [
      '41: organizations[0].keys[1].id: "ci" is already the id at organizations[0].keys[0].id; ids are ' +
        'unique in the whole file',
    ],
  },
  {
    what: 'a short key',
    replace: 'canary-key-0123456789',
    by: 'canary',
    lines: [
      '39: organizations[0].keys[0].key: must be 16 to 512 printable ASCII characters without spaces or ' +
        'commas (found 6 characters, not shown)',
    ],
  },
  {
    what: 'a well-known key',
    replace: 'canary-key-0123456789',
    by: 'changeme-changeme',
    lines: [
      '39: organizations[0].keys[0].key: is a well-known word, which is easy to guess; create a key: ' +
        'openssl rand -hex 24',
    ],
  },
  {
    what: 'the hash of a well-known word',
    replace: 'ff361e9c224c8a0c4720d375ba4c3f8c2034858b80bb374f8d25203452f2f38c',
    by: '5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8',
    lines: [
      '42: organizations[0].keys[1].sha256: is the SHA-256 of a well-known word, or of an empty string, ' +
        'which is easy to guess; create a key: openssl rand -hex 24',
    ],
  },
  {
    what: 'a key in the place of its hash',
    replace: 'ff361e9c224c8a0c4720d375ba4c3f8c2034858b80bb374f8d25203452f2f38c',
    by: 'canary-key-in-the-wrong-place',
    lines: ['42: organizations[0].keys[1].sha256: must be 64 hexadecimal digits (found 29 characters, not shown)'],
  },
  {
    what: 'the placeholder of the example',
    replace: 'ff361e9c224c8a0c4720d375ba4c3f8c2034858b80bb374f8d25203452f2f38c',
    by: '"0000000000000000000000000000000000000000000000000000000000000000"',
    lines: [
      '42: organizations[0].keys[1].sha256: is the placeholder of the example; replace it with the output ' +
        'of: printf %s "$KEY" | sha256sum',
    ],
  },
  {
    what: 'a date that does not exist',
    replace: '2099-01-01',
    by: '2099-02-30',
    lines: [
      '40: organizations[0].keys[0].expires_at: must be a date (2027-01-31) or an RFC 3339 time ' +
        '(2027-01-31T12:00:00Z) (found "2099-02-30")',
    ],
  },
  {
    what: 'a date in another form',
    replace: '2099-01-01',
    by: '31.12.2099',
    lines: [
      '40: organizations[0].keys[0].expires_at: must be a date (2027-01-31) or an RFC 3339 time ' +
        '(2027-01-31T12:00:00Z) (found "31.12.2099")',
    ],
  },
  {
    what: 'a rule without an effect',
    replace: '    auto: available',
    by: '    rules: [{ keys: [ci] }]',
    lines: ['33: organizations[0].rules[0]: needs allow or deny'],
  },
  {
    what: 'a tab',
    replace: '    context_window',
    by: '\tcontext_window',
    lines: ['24: column 1: tabs are not allowed as indentation; use spaces'],
  },
  {
    what: 'a second document',
    replace: 'providers:',
    by: '---\nproviders:',
    lines: ['7: column 1: a second document begins here; a configuration is one document, so remove the line ---'],
  },
  {
    what: 'a bracket that is not closed',
    replace: '[claude-sonnet]',
    by: '[claude-sonnet',
    lines: ['23: column 5: a list that begins with [ is not closed, or goes on without indentation; close it with ]'],
  },
  {
    what: 'a reference in braces without quotes',
    replace: 'admin: { port: 9090 }',
    by: 'admin: { port: ${PORT} }',
    lines: [
      '2: column 17: there is more text after the end of a value; remove it, or quote the whole value ' +
        '(within { } and [ ] put a ${…} in quotes)',
    ],
  },
  {
    what: 'a key of the file twice',
    replace: 'workers: 1',
    by: 'workers: 1\nworkers: 2',
    lines: ['4: workers: duplicate key, also on line 3; keep one (found 2)'],
  },
  {
    what: 'no value',
    replace: 'workers: 1',
    by: 'workers:',
    lines: ['3: workers: has no value; add one or remove the key'],
  },
  {
    what: 'an anchor that does not exist',
    replace: 'id: acme',
    by: 'id: *acme',
    lines: [
      '31: organizations[0].id: refers to an anchor (*) that is not defined before it; quote a string that ' +
        'begins with *',
    ],
  },
  {
    what: 'a LiteLLM file',
    by: 'model_list:\n  - model_name: gpt-4o\n    litellm_params: { model: openai/gpt-4o }\n',
    lines: [
      '1: model_list: this is a configuration of the LiteLLM proxy, not of weir; make a weir.yaml of it: ' +
        'weir import litellm FILE > weir.yaml',
    ],
  },
  {
    what: 'a LiteLLM file of settings alone',
    by: '# proxy\nlitellm_settings: { drop_params: true }\n',
    lines: [
      '2: litellm_settings: this is a configuration of the LiteLLM proxy, not of weir; make a weir.yaml of ' +
        'it: weir import litellm FILE > weir.yaml',
    ],
  },
  {
    what: 'a Portkey file',
    by: '{\n "strategy": { "mode": "fallback" },\n "targets": [{ "virtual_key": "canary" }]\n}\n',
    lines: [
      '2: strategy: this is a configuration of Portkey, not of weir; weir import has no reader for it; ' +
        'write a weir.yaml as weir.example.yaml shows',
    ],
  },
  {
    what: 'a Kong file',
    by: '_format_version: "3.0"\nservices: []\n',
    lines: [
      '1: _format_version: this is a configuration of Kong, not of weir; weir import has no reader for it; ' +
        'write a weir.yaml as weir.example.yaml shows',
    ],
  },
  {
    what: 'a Kubernetes resource',
    by: 'apiVersion: v1\nkind: ConfigMap\n',
    lines: [
      '1: apiVersion: this is a configuration of Envoy AI Gateway or another Kubernetes resource, not of ' +
        'weir; weir import has no reader for it; write a weir.yaml as weir.example.yaml shows',
    ],
  },
  {
    what: 'a Bifrost file',
    by: '{ "client": {}, "providers": { "openai": { "keys": [] } } }',
    lines: [
      '1: client: this is a configuration of Bifrost, not of weir; weir import has no reader for it; write ' +
        'a weir.yaml as weir.example.yaml shows',
    ],
  },
  {
    what: 'an empty file',
    by: '',
    lines: ['1: (file): is empty; write a configuration as weir.example.yaml shows'],
  },
  {
    what: 'a list',
    by: '- a\n',
    lines: ['1: (file): must be a group of keys (The configuration of weir) (found a list)'],
  },
]

/** Files that are valid, and probably not meant so. */
const DOUBTFUL: readonly Row[] = [
  {
    what: 'a weight for targets that are tried in order',
    replace: '{ provider: local, model: qwen }',
    by: '{ provider: local, model: qwen, weight: 3 }',
    lines: [
      '21: warning: models[0].targets[1].weight: has no effect: the targets are tried in order; ' +
        'set spread: weighted, or remove it (found 3)',
    ],
  },
  {
    what: 'a target twice',
    replace: '{ provider: local, model: qwen }',
    by: '{ provider: openai, model: gpt-5-mini-2025-08-07 }',
    lines: [
      '14: warning: providers.local: no model uses provider "local"; add a target, or remove the provider',
      '21: warning: models[0].targets[1]: is the same target as targets[0]; remove it',
    ],
  },
  {
    what: 'a price per token',
    replace: 'input: 0.25',
    by: 'input: 0.00000025',
    lines: [
      '23: warning: models[0].price.input: 0.00000025 dollars per million tokens is far below any price; ' +
        'prices are per million (0.25 if this one is per token)',
    ],
  },
  {
    what: 'a price per token, with an exponent',
    replace: 'output: 15',
    by: 'output: 1.5e-5',
    lines: [
      '28: warning: models[1].price.output: 0.000015 dollars per million tokens is far below any price; ' +
        'prices are per million (15 if this one is per token)',
    ],
  },
  {
    what: 'a price per thousand tokens of a million times',
    replace: 'output: 15',
    by: 'output: 1500',
    lines: [
      '28: warning: models[1].price.output: 1500 dollars per million tokens is far above any price; prices ' +
        'are dollars per million',
    ],
  },
  {
    what: 'cached input dearer than input',
    replace: 'cached_input: 0.025',
    by: 'cached_input: 2.5',
    lines: ['23: warning: models[0].price.cached_input: 2.5 is more than input (0.25); swap them?'],
  },
  {
    what: 'a key that has expired',
    replace: '2099-01-01',
    by: '2020-01-01',
    lines: [
      '40: warning: organizations[0].keys[0].expires_at: the key expired at 2020-01-01, and every request ' +
        'with it is rejected; extend it, or remove the key',
    ],
  },
  {
    what: 'a provider without a model',
    replace: '      - { provider: local, model: qwen }\n',
    by: '',
    lines: ['14: warning: providers.local: no model uses provider "local"; add a target, or remove the provider'],
  },
  {
    what: 'a rate that no request without an output limit passes',
    replace: '      requests_per_minute: 600',
    by: '      tokens_per_minute: 4095',
    lines: [
      '35: warning: organizations[0].limits.tokens_per_minute: 4095 refuses every request without an output limit, ' +
        'for which weir reserves 4096 tokens; raise it, or let callers send one (max_tokens)',
    ],
  },
  {
    what: 'a glob without a model',
    replace: '"claude-*"',
    by: '"claud-*"',
    lines: ['32: warning: organizations[0].models[1]: "claud-*" matches no model; correct it, or remove it'],
  },
  {
    what: 'a rule without a model',
    replace: '    auto: available',
    by: '    auto: available\n    rules: [{ deny: ["gpt-image*"] }]',
    lines: [
      '34: warning: organizations[0].rules[0].deny[0]: "gpt-image*" matches no model; correct it, or ' + 'remove it',
    ],
  },
  {
    what: 'a key for a model with a typo',
    replace: '      - id: bot',
    by: '      - id: bot\n        models: [claude-sonet]',
    lines: [
      '42: warning: organizations[0].keys[1].models[0]: "claude-sonet" matches no model (did you mean ' +
        '"claude-sonnet"?)',
    ],
  },
  {
    what: 'output above the window',
    replace: 'context_window: 400000',
    by: 'context_window: 40000',
    lines: [
      '25: warning: models[0].max_output_tokens: 128000 is more than context_window (40000), which input ' +
        'and output share; lower it, or raise context_window',
    ],
  },
  {
    what: 'a hosted provider without a key',
    replace: '    api_key: sk-ant-canary-plain\n',
    by: '',
    lines: [
      '11: warning: providers.anthropic.api_key: is missing, and api.anthropic.com is a hosted provider, ' +
        'which rejects requests without one; set api_key: "${NAME}"',
    ],
  },
  {
    what: 'a hosted address without a key',
    replace: 'http://127.0.0.1:8000/v1',
    by: 'https://api.together.xyz/v1',
    lines: [
      '14: warning: providers.local.api_key: is missing, and api.together.xyz is a hosted provider, which ' +
        'rejects requests without one; set api_key: "${NAME}"',
    ],
  },
  {
    what: '/v1 twice',
    replace: 'http://127.0.0.1:8000/v1',
    by: 'http://127.0.0.1:8000/v1/v1',
    lines: ['16: warning: providers.local.base_url: "http://127.0.0.1:8000/v1/v1" has /v1 twice; keep one'],
  },
  {
    what: '/v1 missing',
    replace: 'http://127.0.0.1:8000/v1',
    by: 'http://127.0.0.1:8000',
    lines: [
      '16: warning: providers.local.base_url: "http://127.0.0.1:8000" has no /v1, which the API of OpenAI ' +
        'and compatible servers begins with; append it',
    ],
  },
  {
    what: '/v1 of OpenAI missing',
    replace: '    api_key: "${OPENAI_API_KEY}"',
    by: '    api_key: "${OPENAI_API_KEY}"\n    base_url: https://api.openai.com',
    lines: [
      '11: warning: providers.openai.base_url: "https://api.openai.com" has no /v1, which the API of ' +
        'OpenAI and compatible servers begins with; append it',
    ],
  },
  {
    what: '/v1 that weir appends',
    replace: '    api_key: sk-ant-canary-plain',
    by: '    api_key: sk-ant-canary-plain\n    base_url: https://api.anthropic.com/v1',
    lines: [
      '14: warning: providers.anthropic.base_url: "https://api.anthropic.com/v1" ends with /v1, which weir ' +
        'appends itself; remove it',
    ],
  },
  {
    what: 'the path of an endpoint',
    replace: 'http://127.0.0.1:8000/v1',
    by: 'http://127.0.0.1:8000/v1/chat/completions',
    lines: [
      '16: warning: providers.local.base_url: "http://127.0.0.1:8000/v1/chat/completions" ends with the ' +
        'path of an endpoint, which weir appends; remove it',
    ],
  },
  {
    what: 'all addresses',
    replace: 'host: 127.0.0.1',
    by: 'host: 0.0.0.0',
    lines: [
      '1: warning: listen.host: 0.0.0.0 accepts connections from every network, and weir does not encrypt ' +
        'them; put a proxy that ends TLS in front, or listen on 127.0.0.1',
    ],
  },
]

const folder = await mkdtemp(join(tmpdir(), 'weir-wrong-'))
const file = join(folder, 'weir.yaml')

afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

function named(rows: readonly Row[]) {
  return rows.map((row) => [row.what, row] as const)
}

async function loaded({ replace, by }: Row) {
  const text = replace === undefined ? by : FILE.replace(replace, () => by)
  if (replace !== undefined) expect(FILE).toContain(replace)
  await writeFile(file, text)
  return await loadConfig(file, ENV)
}

test('without a mistake there is neither a problem nor a warning', async () => {
  await writeFile(file, FILE)
  expect(await loadConfig(file, ENV)).toMatchObject({ ok: true, warnings: [] })
})

test.each(named(WRONG))('%s', async (_, row) => {
  const result = await loaded(row)
  const lines = [...(result.ok ? [] : result.problems), ...result.warnings]
  expect(lines).toEqual(row.lines.map((line) => `${file}:${line}`))
  expect(result.ok).toBe(false)
  expect(lines.join('\n')).not.toContain('canary')
})

test.each(named(DOUBTFUL))('%s: a warning', async (_, row) => {
  const result = await loaded(row)
  expect(result.warnings).toEqual(row.lines.map((line) => `${file}:${line}`))
  expect(result.ok).toBe(true)
})

test('there are sixty mistakes and more', () => {
  expect(WRONG.length).toBeGreaterThan(60)
})

test('a rate is not doubtful if some request without an output limit passes it, or none shall', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'weir-rates-'))
  const file = join(folder, 'weir.yaml')
  const smaller = FILE.replace('max_output_tokens: 128000', 'max_output_tokens: 1000')
  const images = FILE.replace('context_window: 400000', 'supports: [image_generation]')
  const files = [
    FILE.replace('requests_per_minute: 600', 'tokens_per_minute: 4096'),
    FILE.replace('requests_per_minute: 600', 'tokens_per_minute: 0'),
    smaller.replace('requests_per_minute: 600', 'tokens_per_minute: 1000'),
    images.replace('requests_per_minute: 600', 'tokens_per_minute: 10'),
  ]
  for (const text of files) {
    await writeFile(file, text)
    const { warnings } = await loadConfig(file, ENV)
    expect(warnings.filter((line) => line.includes('tokens_per_minute'))).toEqual([])
  }
  await rm(folder, { recursive: true })
})
