/**
 * The shape of the configuration file, every key of it with its meaning: what the file is checked by and what its JSON Schema is made
 * from. What one field alone cannot tell (references, duplicates, combinations) is checked beside it, in `check-*.ts`.
 */

import { type Static, Type } from '@sinclair/typebox'
import {
  host,
  IDENTIFIER,
  IDENTIFIER_WORDS,
  identifier,
  modelName,
  object,
  oneOf,
  optional,
  pem,
  period,
  port,
  redisUrl,
  text,
} from './field-types.ts'
import { model, provider } from './schema-models.ts'
import { organization } from './schema-organizations.ts'

const MIB = 1024 * 1024
/** The largest body, which must pass alone. */
const BODY_BYTES_MAX = 10 * MIB
export const ORGANIZATION_BODY_BYTES = 64 * MIB
export const WORKER_BODY_BYTES = 512 * MIB

const listen = object(
  {
    host: optional(host('127.0.0.1')),
    port: optional(port('The port of the inference API; 0 = any that is free', 8080)),
    explain_header: optional(
      Type.Boolean({ description: 'Tell in a header of each answer how its model was chosen', default: false }),
    ),
    organization_body_bytes: optional(
      Type.Integer({
        minimum: BODY_BYTES_MAX,
        maximum: Number.MAX_SAFE_INTEGER,
        description: 'Request bodies that one organization may have in flight in one worker; beyond it is a 429',
        default: ORGANIZATION_BODY_BYTES,
      }),
    ),
    worker_body_bytes: optional(
      Type.Integer({
        // One of the largest, four times over, in what is not kept free for small ones.
        minimum: 5 * BODY_BYTES_MAX,
        maximum: Number.MAX_SAFE_INTEGER,
        description:
          'Memory of one worker for request bodies, each of which takes up to four times its size; beyond it is a 503',
        default: WORKER_BODY_BYTES,
      }),
    ),
  },
  { description: 'Where the inference API is served' },
)

const admin = object(
  {
    host: optional(host('127.0.0.1')),
    port: optional(port('The port of health, metrics and console; 0 = any that is free', 9090)),
  },
  { description: 'Where health, metrics and the console are served; never the inference API' },
)

const cluster = object(
  {
    cluster: Type.Array(redisUrl('A node'), {
      minItems: 1,
      description: 'Some nodes of a Redis Cluster; the others are found',
    }),
  },
  { description: 'A Redis Cluster' },
)

const sentinel = object(
  {
    sentinels: Type.Array(redisUrl('A sentinel'), { minItems: 1, description: 'Redis Sentinels' }),
    name: text('The name of the master that the sentinels watch'),
  },
  { description: 'A Redis master that is found through sentinels' },
)

const tls = object(
  {
    ca: optional(pem('The certificates of the authorities that Redis is trusted by; unless set, those of the system')),
    certificate: optional(pem('The certificate that weir shows, where Redis asks for one')),
    key: optional(pem('The key of that certificate')),
  },
  { description: 'How a Redis at rediss:// is trusted, and how weir shows who it is; PEM, best from files' },
)

const redis = Type.Union([redisUrl('The address of one Redis'), cluster, sentinel], { description: 'Which Redis' })

const ledger = Type.Union(
  [
    Type.Literal('embedded'),
    object(
      {
        redis,
        tls: optional(tls),
        timeout_ms: optional(
          Type.Integer({
            minimum: 10,
            maximum: 10_000,
            description: 'How long a reply of Redis may take; a reservation is sent once more after that',
            default: 250,
          }),
        ),
      },
      { description: 'In Redis: for several workers or nodes' },
    ),
  ],
  {
    description: 'Where money and rates are held: `embedded` (in process and in data_dir) or { redis: … }',
    default: 'embedded',
  },
)

export const schema = object(
  {
    listen: optional(listen),
    admin: optional(admin),
    workers: optional(
      Type.Union([Type.Integer({ minimum: 1, maximum: 1024 }), Type.Literal('auto')], {
        description: 'Processes that share the port; auto = one a core. More than 1 needs Redis',
        default: 1,
      }),
    ),
    data_dir: optional(
      Type.String({
        minLength: 1,
        maxLength: 4096,
        pattern: '^[^\\x00]*$',
        patternErrorMessage: 'must be a path',
        description: 'The embedded ledger, and the outbox',
        default: './data',
      }),
    ),
    drain_seconds: optional(
      Type.Integer({
        minimum: 0,
        maximum: 86_400,
        description: 'How long running requests may finish when the program is stopped',
        default: 600,
      }),
    ),
    owned_by: optional(
      Type.String({
        minLength: 1,
        maxLength: 128,
        description: 'The owned_by of every model in the list',
        default: 'weir',
      }),
    ),
    ledger: optional(ledger),
    ledger_unreachable: optional(
      oneOf(['refuse', 'allow'], 'Without a ledger: refuse (503), or allow and settle on recovery', 'refuse'),
    ),
    audit: optional(
      object(
        {
          keep_days: optional(
            Type.Integer({
              minimum: 1,
              maximum: 3650,
              description: 'How long single requests are kept; their sums are kept for good',
              default: 90,
            }),
          ),
        },
        { description: 'The audit trail, in the embedded ledger, in Redis and in the outbox' },
      ),
    ),
    responses: optional(
      object(
        {
          remember_items_seconds: optional(
            Type.Integer({
              minimum: 0,
              maximum: 2_592_000,
              description: 'How long output items that SDKs refer back to are remembered; 0 = not',
              default: 3600,
            }),
          ),
          redis: optional(redis),
          tls: optional(tls),
        },
        {
          description:
            'The Responses endpoint. With redis, items are kept there, and not in the Redis of the ledger or in process',
        },
      ),
    ),
    compatibility: optional(
      object(
        {
          image_urls: optional(
            oneOf(
              ['public', 'any'],
              'Addresses of images that providers are given: https to public hosts, or any, http and private hosts too',
              'public',
            ),
          ),
          tool_result_images: optional(
            oneOf(
              ['refuse', 'pass'],
              'Images within tool results on Messages: refuse (the specification) or pass them on',
              'refuse',
            ),
          ),
        },
        { description: 'Departures from the specification that some callers need' },
      ),
    ),
    compaction: optional(
      object(
        {
          keys: Type.Array(text('32 bytes in base64, best from the environment'), {
            minItems: 1,
            uniqueItems: true,
            description: 'The first seals compacted conversations, all open them',
          }),
        },
        { description: 'Keys of compaction; unless set one is made and kept in data_dir' },
      ),
    ),
    providers: Type.Record(identifier('The name that targets use'), provider, {
      description: 'The providers by name',
      additionalProperties: false,
      propertyNames: { pattern: IDENTIFIER, patternErrorMessage: IDENTIFIER_WORDS },
      minProperties: 1,
    }),
    models: Type.Array(model, { minItems: 1, description: 'The models, in the order in which they are listed' }),
    auto: optional(
      object(
        {
          candidates: Type.Array(modelName('A public name of a chat model'), {
            minItems: 1,
            uniqueItems: true,
            description: 'In order',
          }),
        },
        { description: 'What the model `auto` chooses from' },
      ),
    ),
    routing: optional(
      object(
        {
          max_attempts: optional(
            Type.Integer({
              minimum: 1,
              maximum: 100,
              description: 'Providers that are asked for one request at most',
              default: 3,
            }),
          ),
          total_timeout_ms: optional(period('The longest that finding an answer may take, over all attempts', 600_000)),
        },
        { description: 'How far one request goes' },
      ),
    ),
    organizations: Type.Array(organization, { minItems: 1, description: 'Who may call' }),
  },
  { title: 'weir.yaml', description: 'The configuration of weir' },
)

/** The file as it stands in YAML, once it is known to have this shape. */
export type File = Static<typeof schema>
