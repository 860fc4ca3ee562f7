/** The part of the schema for organisations and API keys: who may call which models, and how much they may use. */

import { Type } from '@sinclair/typebox'
import { MODES, SWITCHES } from '../core/compatibility.ts'
import { ownerSpendLimits, SOCKETS_DEFAULT } from '../core/limits.ts'
import {
  boolean,
  count,
  glob,
  identifier,
  integer,
  object,
  oneOf,
  optional,
  optionals,
  pattern,
  secret,
  tags,
  text,
  withDefault,
} from './field-types.ts'
import { budgets } from './schema-budgets.ts'
import { countFields, spendFields } from './schema-limits.ts'

export const limits = object(
  {
    ...countFields(),
    ...optionals({
      sockets: count(
        `WebSockets that are open at the same time, in each worker. Without it, ${SOCKETS_DEFAULT} may be`,
      ),
      spend: object(
        {
          ...spendFields(ownerSpendLimits),
          strict: boolean(
            'Reserves the whole output limit of a request from the start, not a slice that grows. ' +
              'Models then need `max_output_tokens`',
            false,
          ),
          on_exhausted: oneOf(
            ['finish', 'cut'],
            'A stream that reaches the limit may `finish`, or weir ends it (`cut`)',
            'finish',
          ),
        },
        {
          description:
            'Spend limits, at least one of `day`, `month` and `total`, in days and months of UTC. ' +
            'The smallest amount above 0 is a micro-dollar, 0.000001',
          minProperties: 1,
        },
      ),
    }),
  },
  { description: 'Limits. Each is optional, and applies to the organisation or key as a whole' },
)

/** The switches that the whole configuration, an organisation and a key may set. */
export const switches = optionals({
  mode: oneOf(
    MODES,
    '`native` turns on every switch of [native mode](native.md) that is not set itself; `specification` turns off',
  ),
  reasoning: oneOf(
    SWITCHES.reasoning,
    'How much a model thinks: `off` takes only `reasoning_effort` of Chat Completions, for OpenAI; `pass` takes ' +
      'the fields of every dialect, for every provider, and answers have the thoughts',
  ),
  structured_output: oneOf(
    SWITCHES.structured_output,
    'Schemas for answers: `off` takes only `response_format` of Chat Completions, `pass` also `text.format` of ' +
      'Responses and `output_config.format` of Messages, and looks for a model that follows them',
  ),
  content: oneOf(
    SWITCHES.content,
    'Documents, images of Responses and by address on Messages, and both in results of tools: `off` rejects or ' +
      'ignores them, `pass` sends them to providers that take them',
  ),
  tools: oneOf(
    SWITCHES.tools,
    'Tools that are no functions: `functions` leaves them out, `pass` passes free-form tools to every provider, ' +
      "a provider's own tools to that provider",
  ),
  betas: oneOf(
    SWITCHES.betas,
    'Headers, fields, blocks and events of Anthropic beyond the specification: `off` skips or rejects them, ' +
      '`pass` passes them between callers of Messages and Claude at Anthropic and Vertex AI',
  ),
  status: oneOf(
    SWITCHES.status,
    'How an answer ended: `completed` for every answer of Responses, or `provider`: `incomplete`, and the stop ' +
      'reasons of Anthropic on Messages',
  ),
  provider_errors: oneOf(
    SWITCHES.provider_errors,
    'Errors of a provider about a request: `rewritten`, or `pass` with its own status, type, code and message',
  ),
  metadata: oneOf(
    SWITCHES.metadata,
    'The field `metadata` on paths other than Messages: `refuse` answers 400, `accept` skips it',
  ),
})

const ownSwitches = (whose: string) =>
  optional(object(switches, { description: `Switches of [native mode](native.md) for ${whose}` }))

const rule = object(
  optionals({
    allow: Type.Array(glob, { minItems: 1, description: 'Patterns of models that the rule allows' }),
    deny: Type.Array(glob, { minItems: 1, description: 'Patterns of models that the rule denies' }),
    keys: Type.Array(glob, {
      minItems: 1,
      description: 'Patterns of the ids of keys that the rule applies to. Without it, all keys',
    }),
  }),
  {
    description: 'A rule, with either `allow` or `deny`',
    oneOf: [{ required: ['allow'] }, { required: ['deny'] }],
  },
)

const globs = (whose: string) =>
  Type.Array(glob, { description: `Patterns of the models that ${whose} may use. Without it, all models` })

const AUTO = ['off', 'available', 'mandatory'] as const

export const key = object(
  {
    id: identifier('The name of the key in logs and reports. It is unique in the whole file'),
    ...optionals({
      // The key itself may stand here by mistake.
      sha256: secret(
        pattern(
          '^[0-9A-Fa-f]{64}$',
          'must be 64 hexadecimal digits',
          'The SHA-256 of the key, as `printf %s "$KEY" | sha256sum` prints it',
        ),
      ),
      key: secret(
        pattern(
          '^[\\x21-\\x2b\\x2d-\\x7e]{16,512}$',
          'must be 16 to 512 printable ASCII characters without spaces or commas',
          'The key itself, instead of `sha256`, best from the environment. weir keeps only its hash',
        ),
      ),
      models: globs('the key'),
      auto: oneOf(
        AUTO,
        "Narrows the organisation's `auto`, or makes it mandatory. Without it, the organisation's setting",
      ),
      limits: limits,
    }),
    compatibility: ownSwitches('the key. Without them, those of its organisation hold'),
    ...optionals({
      tags: tags('Tags of requests that do not name them in `X-Gateway-Tags`. The names must be in `tags`'),
      priority: oneOf(
        ['interactive', 'batch'],
        'Who goes first where requests wait for providers. `interactive` is the default; a caller may lower it with ' +
          '`X-Gateway-Priority: batch`',
      ),
      max_wait_ms: integer(
        [0, 3_600_000],
        'How long its requests wait for room at most. The default is `queue.max_wait_ms`',
      ),
      fixed_tags: tags('Tags of every request, whatever it names itself. The names must be in `tags`'),
      expires_at: text('A date (its first moment in UTC) or an RFC 3339 time, from which weir rejects the key'),
    }),
    disabled: boolean('Makes weir reject the key', false),
  },
  {
    description: 'An API key, with either `sha256` or `key`',
    oneOf: [{ required: ['sha256'] }, { required: ['key'] }],
  },
)

export const organization = object(
  {
    id: identifier('The name of the organisation in logs and reports'),
    models: optional(globs('the organisation')),
    rules: withDefault(
      Type.Array(rule, {
        description:
          'Rules that allow or deny models. The first rule that matches decides; without a match the model is allowed',
      }),
      [],
    ),
    auto: oneOf(
      AUTO,
      'The model `auto`, for which weir chooses one of `auto.candidates`: `off` rejects it, `available` allows it, ' +
        '`mandatory` allows nothing else',
      'off',
    ),
    limits: optional(limits),
    weight: optional(
      integer(
        [1, 1_000_000],
        'Its share where requests wait for providers, in proportion to the others. The default is 1',
      ),
    ),
    timezone: text('The time zone of the days, weeks and months of its budgets, such as `Europe/Berlin`', 'UTC'),
    budgets,
    compatibility: ownSwitches('the organisation. Without them, those of the whole configuration hold'),
    keys: withDefault(
      Type.Array(key, { description: 'API keys. `weir keys create` makes more, without a change of the file' }),
      [],
    ),
  },
  { description: 'An organisation: its models, limits and API keys' },
)
