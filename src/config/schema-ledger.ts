/** The schema of the ledger, and of connections to Redis. */

import { Type } from '@sinclair/typebox'
import { REDIS_TIMEOUT_MS } from '../core/redis-config.ts'
import { integer, object, optional, pem, redisUrl, text } from './field-types.ts'

const cluster = object(
  {
    cluster: Type.Array(redisUrl('The address of a node'), {
      minItems: 1,
      description: 'Some nodes of a Redis Cluster. weir discovers the others',
    }),
  },
  { description: 'A Redis Cluster' },
)

const sentinel = object(
  {
    sentinels: Type.Array(redisUrl('The address of a sentinel'), { minItems: 1, description: 'Redis Sentinels' }),
    name: text('The name of the master that the sentinels watch'),
  },
  { description: 'A Redis master that weir finds through Redis Sentinel' },
)

export const tls = object(
  {
    ca: optional(pem('The CA certificates to trust, as PEM. Without it weir trusts those of the system')),
    certificate: optional(pem('The client certificate, as PEM, if Redis asks for one. Needs `key`')),
    key: optional(pem('The private key of `certificate`, as PEM')),
  },
  { description: 'TLS settings for `rediss://` addresses' },
)

export const redis = Type.Union([redisUrl('The address of one Redis server'), cluster, sentinel], {
  description:
    'A `redis://` or `rediss://` (TLS) address, which may carry a user, a password and a database; ' +
    'or the nodes of a Redis Cluster; or the sentinels of a master',
})

export const ledger = Type.Union(
  [
    Type.Literal('embedded'),
    object(
      {
        redis,
        tls: optional(tls),
        timeout_ms: integer(
          [10, 10_000],
          'How long weir waits for a reply of Redis. A reservation without a reply is sent once more, then rejected',
          REDIS_TIMEOUT_MS,
        ),
      },
      { description: 'A ledger in Redis, shared by several nodes' },
    ),
  ],
  {
    description:
      'Where budgets and rate limits are kept: `embedded` (in `data_dir`; one node, any number of workers) or ' +
      '`{ redis: … }` (Redis 7 or Valkey; any number of nodes)',
  },
)
