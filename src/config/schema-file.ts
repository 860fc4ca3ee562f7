/**
 * The schema of the configuration file: every key with its type, bounds, default and meaning. It validates the file,
 * and its JSON Schema and the page about the configuration are generated from it. What involves several fields
 * (references, duplicates, combinations) is checked in `check-*.ts`.
 */

import { type Static, Type } from '@sinclair/typebox'
import {
  boolean,
  type Completed,
  count,
  host,
  IDENTIFIER,
  IDENTIFIER_WORDS,
  identifier,
  integer,
  modelName,
  object,
  oneOf,
  optional,
  pattern,
  period,
  port,
  record,
  secret,
  tagName,
  text,
  unbroken,
  withDefault,
} from './field-types.ts'
import { ledger, redis, tls } from './schema-ledger.ts'
import { model, provider } from './schema-models.ts'
import { alerts, log, metrics, tracing } from './schema-monitoring.ts'
import { organization, switches } from './schema-organizations.ts'

const MIB = 1024 * 1024
/** The largest request body that weir accepts. The memory limits below must allow at least one. */
const BODY_BYTES_MAX = 10 * MIB

const listen = object(
  {
    host: host('The address to listen on. `0.0.0.0` listens on all interfaces', '127.0.0.1'),
    port: port('The port of the inference API. `0` takes any free port', 8080),
    explain_header: boolean(
      'Adds the header `X-Gateway-Route` to each answer. It lists the targets that weir tried and why',
      false,
    ),
    organization_body_bytes: integer(
      [BODY_BYTES_MAX, Number.MAX_SAFE_INTEGER],
      'The most request bodies, added up, that one organisation may have in flight in one worker. ' +
        'weir answers requests beyond it with 429',
      64 * MIB,
    ),
    worker_body_bytes: integer(
      // A body takes up to four times its size, and large ones may use seven eighths of the memory: 4 / (7/8) is 4.6.
      [5 * BODY_BYTES_MAX, Number.MAX_SAFE_INTEGER],
      'The memory of one worker for request bodies, each of which takes up to four times its size. ' +
        'weir answers requests beyond it with 503',
      512 * MIB,
    ),
    worker_sockets: count('How many WebSockets one worker holds. weir answers further handshakes with 503', 20_000),
    trusted_proxies: withDefault(
      Type.Array(unbroken('An address, or a network such as `10.0.0.0/8`'), {
        maxItems: 256,
        description:
          'Proxies and load balancers whose `X-Forwarded-For` or `Forwarded` header weir believes. The address in ' +
          'it is the `remote` of log lines and of the audit; for other connections it is the address of the peer',
      }),
      [],
    ),
    proxy_protocol: boolean(
      'Every connection begins with a header of the PROXY protocol, version 2, which names the caller. ' +
        'weir closes connections without it, so only the load balancer must be able to reach the port',
      false,
    ),
  },
  { description: 'The address of the inference API' },
)

/** Long enough that it cannot be guessed. */
const adminToken = (description: string) =>
  secret(
    pattern(
      '^[\\x21-\\x7e]{16,256}$',
      'must be 16 to 256 printable ASCII characters without spaces (openssl rand -hex 32)',
      description,
    ),
  )

const adminOperator = object({
  name: identifier('Who presents it'),
  token: adminToken('What is presented, 16 to 256 printable characters'),
  role: oneOf(['read', 'operate'], '`read` may see everything, `operate` may also change keys and reload'),
})

const admin = object(
  {
    host: host('The address to listen on', '127.0.0.1'),
    port: port('The port of health checks, metrics and the console. `0` takes any free port', 9090),
    token: optional(
      adminToken(
        'What callers of the admin port present as `Authorization: Bearer …`, 16 to 256 printable characters. Needed ' +
          'if `host` is not a loopback address. Without it the port answers this machine alone, and changes nothing',
      ),
    ),
    tokens: withDefault(
      Type.Array(adminOperator, {
        maxItems: 32,
        description:
          'Further tokens, each with the name that the admin audit shows. `token` is one with the name `admin`',
      }),
      [],
    ),
    hosts: withDefault(
      Type.Array(host('A host name'), {
        maxItems: 32,
        description:
          'Names, besides loopback names and `host`, under which browsers reach the console and the reference. With ' +
          '`host` `0.0.0.0` or `::`, addresses need not be named',
      }),
      [],
    ),
  },
  {
    description:
      'The admin port: health checks, metrics, the console and the admin API. It never serves the inference API',
  },
)

const audit = object(
  {
    keep_days: integer(
      [1, 3650],
      'How long single requests are kept, in the ledger and in the outbox. Their sums are kept forever',
      90,
    ),
  },
  { description: 'The audit trail, which `weir audit` reads' },
)

const responses = object(
  {
    remember_items_seconds: integer(
      [0, 2_592_000],
      'How long weir keeps output items, so that a later request can refer to them by id. `0` keeps none',
      3600,
    ),
    websockets: boolean(
      'Whether callers may hold a WebSocket at `/v1/responses`; `false` answers 426, after which Codex uses HTTP',
      true,
    ),
    socket_minutes: integer([1, 1440], 'How long a WebSocket lives. Then its running turns end, and it is closed', 60),
    socket_bytes: integer(
      [0, Number.MAX_SAFE_INTEGER],
      'The most conversations, added up, that the WebSockets of one organisation keep in one worker. weir forgets ' +
        'the oldest idle ones beyond it, and their callers send the whole conversation again',
      64 * MIB,
    ),
    redis: optional(redis),
    tls: optional(tls),
  },
  {
    description:
      'The Responses endpoint. Items are kept in `responses.redis`, else in the Redis of the ledger, else in the ' +
      'process',
  },
)

const continuity = object(
  {
    keep_seconds: integer(
      [0, 2_592_000],
      'How long weir keeps what models want back of their thoughts. `0` keeps nothing',
      21_600,
    ),
    organization_bytes: integer(
      [1_048_576, 17_179_869_184],
      'What that of one organisation may take, in bytes; its oldest go first',
      67_108_864,
    ),
  },
  {
    description:
      'Thoughts of models, which callers cannot send back ([continuity](continuity.md)). They are kept where output ' +
      'items are, encrypted in Redis',
  },
)

const compatibility = object(
  {
    image_urls: oneOf(
      ['public', 'any'],
      'Which image URLs weir passes to providers: `public` (https to public hosts) or `any` (http and private ' +
        'hosts, too)',
      'public',
    ),
    tool_result_images: oneOf(
      ['refuse', 'pass'],
      'Images inside tool results on Messages: `refuse` answers 400, `pass` passes them to the provider. ' +
        'Coding agents that read pictures need `pass`',
      'refuse',
    ),
    ...switches,
  },
  { description: 'Relaxed rules that some callers need, and [native mode](native.md)' },
)

const compaction = object(
  {
    keys: Type.Array(secret(text('32 bytes in base64, best from the environment: `openssl rand -base64 32`')), {
      minItems: 1,
      uniqueItems: true,
      description:
        '32 bytes in base64 each, as `openssl rand -base64 32` prints them. The first encrypts, all of them decrypt, ' +
        'so that keys can be rotated',
    }),
  },
  {
    description:
      'Keys that encrypt compacted conversations. Without them weir creates one and keeps it in `data_dir`. ' +
      'Several nodes need the same keys',
  },
)

const auto = object(
  {
    candidates: Type.Array(modelName('A public name of a chat model'), {
      minItems: 1,
      uniqueItems: true,
      description: 'Public names of chat models, in order of preference',
    }),
  },
  { description: 'The models from which weir chooses for a request for the model `auto`' },
)

const queue = object(
  {
    max_wait_ms: integer(
      [0, 3_600_000],
      'How long a request waits at most before it gets 429; 0: it does not wait',
      30_000,
    ),
    max_waiting: integer([1, 100_000], 'How many requests may wait in one worker', 10_000),
  },
  {
    description:
      'How requests wait if no candidate has room: for the limits of providers and targets, and with this section ' +
      'also for providers that answered 429. Without it they wait for the limits alone, with these defaults',
  },
)

const routing = object(
  {
    max_attempts: integer([1, 100], 'The most targets that weir tries for one request', 3),
    total_timeout_ms: period(
      'The longest time from the start of a request to the first content of its answer, over all attempts',
      600_000,
    ),
    probe: boolean(
      'Whether weir asks a target that failed, and that no request has called since, whether it answers again: by ' +
        'a free request such as a list of models, once a [rest](routing.md#rest)',
      true,
    ),
  },
  { description: 'Limits for the fallbacks of one request, and what weir does about targets that failed' },
)

const prices = object(
  {
    warn_after_days: optional(
      integer([1, 3650], 'The age in days of `as_of` of a price from which on `weir check` warns. Without it, never'),
    ),
  },
  { description: 'How old prices may be' },
)

const tagSource = pattern(
  "^(?:user|header:[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128})$",
  'must be user, or header: and the name of a header',
  '`header:NAME`, or `user` for the field `user`, `safety_identifier` or `metadata.user_id` of the body',
)

const tag = Type.Union([
  tagName('A name, such as `project`'),
  object(
    {
      name: tagName('The name'),
      from: withDefault(
        Type.Array(tagSource, {
          maxItems: 8,
          description:
            'Where the value comes from if `X-Gateway-Tags` does not have it: the first of these that has one. A ' +
            'value that no tag may have becomes `h:` and 22 characters of its SHA-256',
        }),
        [],
      ),
      required: boolean('Whether weir rejects a request for a model without the tag', false),
      counted: boolean('Whether `weir usage` sums up by it. Without, it is for budgets and log lines alone', true),
    },
    { description: 'A tag with sources or rules' },
  ),
])

/** The names of tags, and where their values come from. */
const tagList = Type.Array(tag, {
  maxItems: 32,
  description:
    'The tags that callers may set with the header `X-Gateway-Tags`, and operators on keys: names, or names with ' +
    'sources. `weir usage --by tag:NAME` sums up by them. Without any the header is ignored',
})

export const schema = object(
  {
    listen: withDefault(listen, {}),
    admin: withDefault(admin, {}),
    workers: withDefault(
      Type.Union([integer([1, 1024], 'The number of processes'), Type.Literal('auto')], {
        description: 'Processes that share the port, with either ledger. `auto` starts one for each core',
      }),
      1,
    ),
    data_dir: withDefault(
      Type.String({
        minLength: 1,
        maxLength: 4096,
        pattern: '^[^\\x00]*$',
        patternErrorMessage: 'must be a path',
        description:
          'The directory of what weir stores on disk: the embedded ledger and created API keys, or the outbox of ' +
          'settlements for Redis; the compaction key, if weir created it; the control socket. ' +
          'A relative path is relative to the working directory',
      }),
      './data',
    ),
    drain_seconds: integer(
      [0, 86_400],
      'How long running requests may finish after SIGTERM. weir ends those that remain',
      600,
    ),
    node_name: optional(
      pattern(
        '^[\\x21-\\x7e]{1,128}$',
        'must be 1 to 128 printable ASCII characters without spaces',
        'The name of this gateway in alerts, log lines, metrics and the console. Without it: the name of the host',
      ),
    ),
    owned_by: withDefault(
      Type.String({ minLength: 1, maxLength: 128, description: 'The `owned_by` of every model in the model list' }),
      'weir',
    ),
    ledger: withDefault(ledger, 'embedded'),
    ledger_unreachable: oneOf(
      ['refuse', 'allow'],
      'What happens while Redis is unreachable: `refuse` answers 503; `allow` serves requests without limits, ' +
        'records them in the outbox and settles them later',
      'refuse',
    ),
    shortcuts: boolean(
      'Whether usual requests, answers and events take the fast paths. Without them everything is parsed and ' +
        'written in full, which takes more CPU time and sends the same. Set it to `false` to find out whether a ' +
        'fast path causes a fault',
      true,
    ),
    audit: withDefault(audit, {}),
    log: withDefault(log, {}),
    tracing: optional(tracing),
    alerts: optional(alerts),
    metrics: withDefault(metrics, {}),
    tags: withDefault(tagList, []),
    responses: withDefault(responses, {}),
    continuity: withDefault(continuity, {}),
    compatibility: withDefault(compatibility, {}),
    compaction: optional(compaction),
    providers: record(IDENTIFIER, IDENTIFIER_WORDS, provider, {
      description: 'The providers by name. A name is any word; targets refer to it',
      minProperties: 1,
    }),
    prices: withDefault(prices, {}),
    models: Type.Array(model, { minItems: 1, description: 'The models. The model list has the same order' }),
    auto: optional(auto),
    queue: optional(queue),
    routing: withDefault(routing, {}),
    organizations: Type.Array(organization, {
      minItems: 1,
      description: 'The organisations that may call, with their keys',
    }),
  },
  { title: 'weir.yaml', description: 'The configuration of weir' },
)

/** The file as written, once it is known to match the schema. */
export type File = Static<typeof schema>

/** The file with every default filled in. */
export type CompletedFile = Completed<typeof schema>

/**
 * The text of the JSON Schema, for editors. A TypeBox schema is JSON Schema already, but for its symbols,
 * which `JSON.stringify` leaves out.
 */
export function jsonSchema(): string {
  return `${JSON.stringify({ $schema: 'https://json-schema.org/draft/2020-12/schema', ...schema }, undefined, 2)}\n`
}
