/** The part of the file that says who may call, with which keys, which models and how much. */

import { Type } from '@sinclair/typebox'
import { count, dollars, glob, identifier, object, oneOf, optional, pattern, text } from './field-types.ts'

const limits = object(
  {
    requests_per_minute: optional(count('A bucket of so many requests that refills evenly within a minute')),
    tokens_per_minute: optional(count('A bucket of so many tokens that refills evenly within a minute')),
    concurrent_requests: optional(count('Requests that run at the same time')),
    spend: optional(
      object(
        {
          day: optional(dollars('the most in a UTC calendar day')),
          month: optional(dollars('the most in a UTC calendar month')),
          total: optional(dollars('the most ever')),
          strict: optional(
            Type.Boolean({
              description:
                'Hold the whole output limit from the start rather than a slice that grows; models need max_output_tokens',
              default: false,
            }),
          ),
          on_exhausted: optional(oneOf(['finish', 'cut'], 'What happens to a stream that reaches the limit', 'finish')),
        },
        { description: 'Spend limits', minProperties: 1 },
      ),
    ),
  },
  { description: 'Limits, each optional; each is held for the whole of its owner' },
)

const rule = object(
  {
    allow: optional(Type.Array(glob, { minItems: 1, description: 'Models that are allowed' })),
    deny: optional(Type.Array(glob, { minItems: 1, description: 'Models that are denied' })),
    keys: optional(Type.Array(glob, { minItems: 1, description: 'Ids of the keys that it holds for; all unless set' })),
  },
  {
    description: 'Allows or denies; the first rule that matches decides',
    oneOf: [{ required: ['allow'] }, { required: ['deny'] }],
  },
)

const globs = (whose: string) => Type.Array(glob, { description: `The models that ${whose} may use; all unless set` })

const auto = (description: string) => oneOf(['off', 'available', 'mandatory'], description)

const key = object(
  {
    id: identifier('Its name in logs and reports; unique in the whole file'),
    sha256: optional(pattern('^[0-9A-Fa-f]{64}$', 'must be 64 hexadecimal digits', 'SHA-256 of the key')),
    key: optional(
      pattern(
        '^[\\x21-\\x2b\\x2d-\\x7e]{16,512}$',
        'must be 16 to 512 printable ASCII characters without spaces or commas',
        'The key itself, best from the environment; only its hash is kept',
      ),
    ),
    models: optional(globs('the key')),
    auto: optional(auto("Narrows the organisation's setting or makes it mandatory; the same as it unless set")),
    limits: optional(limits),
    expires_at: optional(
      text('A date (from its first moment on, UTC) or an RFC 3339 time from which the key is refused'),
    ),
    disabled: optional(Type.Boolean({ description: 'The key is refused', default: false })),
  },
  { description: 'An API key', oneOf: [{ required: ['sha256'] }, { required: ['key'] }] },
)

export const organization = object(
  {
    id: identifier('Its name in logs and reports'),
    models: optional(globs('the organisation')),
    rules: optional(Type.Array(rule, { description: 'The first that matches decides; none = allowed' })),
    auto: optional(auto('Automatic selection of the model `auto`: off unless set')),
    limits: optional(limits),
    keys: optional(Type.Array(key, { description: 'Keys of the file; `weir keys create` makes others' })),
  },
  { description: 'An organisation: whose keys, models and limits' },
)
